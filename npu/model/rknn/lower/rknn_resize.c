// Operators of .rknn files that sample images: Resize, GridSample.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"

#define ROUNDED 1e-3 // of a size that is a float

// A Resize with scales computes positions from them, and its size is rounded down: where that cuts
// off a part of a pixel, the scale is kept. Where sizes are given (input 3), they count. `where`:
// the input that has the scales.
static int take_scales(struct rknn_lowering *l, uint32_t where, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    const struct graph_tensor *t = lower_input(l, where);
    float scales[4];
    if (lower_input(l, 3) || !t || !t->constant || t->unpack || t->n_elems != 4 || x->n_dims != 4 ||
        y->n_dims != 4)
        return 0;
    graph_tensor_floats(t, scales);
    for (int i = 0; i < 2; i++) {
        double exact = (double)scales[2 + i] * x->dims[2 + i], rest = exact - y->dims[2 + i];
        if (!(rest > -ROUNDED && rest < 1))
            return lower_refuse(l, e, "its scales do not give its output in dimension %d", 2 + i);
        l->out->resize.scale[i] = rest < ROUNDED ? 0 : scales[2 + i];
    }
    return 0;
}

// ---- how halves are rounded ----
//
// An image is made 2, 4 or 8 times larger by a convolution for each phase of lines and columns,
// whose weights are integers, factor times their parts of the whole, and whose output is divided by
// factor times the whole: by a multiplication that is exact to 15 bits. So halves become a little
// less, or more, than halves.

#define MAX_TIMES 8
#define NO_HALVES ((enum graph_halves)3)

struct phases {
    uint32_t times[2], width; // of the output
    enum graph_halves halves[MAX_TIMES * MAX_TIMES];
};

// The convolution's units do nothing but what is told above. Their places differ by generation.
static bool divides_only(const struct rknn_lowering *l, const struct rknn_state *t)
{
    enum { FROM_MEMORY = 1 };
    const uint32_t precisions = 0xfc000007;
    return !(t->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) &&
           !(t->value[DPU_DATA_FORMAT] & precisions) && t->value[DPU_OUT_CVT_SHIFT] >> 6 == 0 &&
           (int32_t)t->value[DPU_OUT_CVT_OFFSET] == lower_output(l, 0)->zp;
}

// What a task's division makes of halves. What it divides by, factor times the whole, is an
// integer.
static enum graph_halves halves_of(const struct phases *p, const struct rknn_state *t)
{
    double scale = t->value[DPU_OUT_CVT_SCALE] & 0xffff;
    double one = ldexp(1, (int)t->value[DPU_OUT_CVT_SHIFT]), by = nearbyint(one / scale);
    if (!(scale > 0) || fmod(by, 4.0 * p->times[0] * p->times[1]) > 0)
        return NO_HALVES;
    return scale * by < one ? HALVES_TOWARDS : scale * by > one ? HALVES_AWAY : HALVES_EVEN;
}

// Which phase a task makes follows from where its first pixel lies.
static bool take_phase(const struct rknn_lowering *l, struct phases *p, const struct rknn_state *t,
                       uint32_t first)
{
    uint32_t atom = l->chip->generation == CHIP_GEN_RK3566 ? 8 : 16;
    uint32_t surface = t->value[DPU_DST_SURF_STRIDE];
    surface /=
        l->chip->generation == CHIP_GEN_RK3562 || l->chip->generation == CHIP_GEN_RK3576 ? 1 : atom;
    if (!surface)
        return false;
    uint32_t pixel = (t->value[DPU_DST_BASE] - first) / atom % surface;
    uint32_t y = pixel / p->width % p->times[0], x = pixel % p->width % p->times[1];
    enum graph_halves *to = &p->halves[y * p->times[1] + x], found = halves_of(p, t);
    bool same = *to == NO_HALVES || *to == found;
    *to = found;
    return same && found != NO_HALVES;
}

static bool read_phases(const struct rknn_lowering *l, struct phases *p)
{
    struct rknn_walk w;
    const struct rknn_state *t;
    uint32_t first = UINT32_MAX;
    rknn_walk_begin(&w, l->regs);
    while ((t = rknn_walk_next(&w)) != NULL)
        if (divides_only(l, t) && t->value[DPU_DST_BASE] < first)
            first = t->value[DPU_DST_BASE];
    bool known = true;
    rknn_walk_begin(&w, l->regs);
    while (known && (t = rknn_walk_next(&w)) != NULL)
        known = !divides_only(l, t) || take_phase(l, p, t, first);
    for (uint32_t i = 0; i < p->times[0] * p->times[1]; i++)
        known = known && p->halves[i] != NO_HALVES;
    return known;
}

static const char unlike[] = "how its registers interpolate is not known";

static int take_halves(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    struct phases p = {.width = y->n_dims == 4 ? y->dims[3] : 0};
    if (l->out->on_cpu || l->out->resize.mode != INTERPOLATE_LINEAR || y->type != TENSOR_INT8 ||
        x->n_dims != 4 || y->n_dims != 4)
        return 0;
    for (int i = 0; i < 2; i++) {
        p.times[i] = x->dims[2 + i] ? y->dims[2 + i] / x->dims[2 + i] : 0;
        if (p.times[i] < 2 || p.times[i] > MAX_TIMES ||
            p.times[i] * x->dims[2 + i] != y->dims[2 + i])
            return lower_has_program(l) ? lower_refuse(l, e, unlike) : 0;
    }
    for (size_t i = 0; i < sizeof p.halves / sizeof *p.halves; i++)
        p.halves[i] = NO_HALVES;
    if (!read_phases(l, &p) || x->zp != y->zp || x->scale != y->scale)
        return lower_has_program(l) ? lower_refuse(l, e, unlike) : 0;
    enum graph_halves *halves =
        pool_alloc(&l->g->pool, (size_t)p.times[0] * p.times[1], sizeof *halves);
    if (!halves)
        return error_no_memory(e, "phases", sizeof p.halves);
    memcpy(halves, p.halves, (size_t)p.times[0] * p.times[1] * sizeof *halves);
    memcpy(l->out->resize.phases, p.times, sizeof p.times);
    l->out->resize.halves = halves;
    return 0;
}

// ---- the nearest pixel ----

// Of one dimension: which pixel ONNX's attributes take for the o-th one of the output.
static double nearest_of(const struct graph_resize *r, uint32_t in, uint32_t out, uint32_t o)
{
    double scale = (double)out / in, at = (o + 0.5) / scale - 0.5;
    if (r->coordinates == COORDINATES_ALIGN_CORNERS)
        at = out > 1 ? (double)o * (in - 1) / (out - 1) : 0;
    else if (r->coordinates == COORDINATES_ASYMMETRIC)
        at = o / scale;
    at = r->nearest == NEAREST_FLOOR      ? floor(at)
         : r->nearest == NEAREST_CEIL     ? ceil(at)
         : r->nearest == NEAREST_ROUND_UP ? floor(at + 0.5)
                                          : ceil(at - 0.5);
    return fmin(fmax(at, 0), in - 1);
}

// The NPU repeats each pixel, whatever the attributes say.
static int check_repeats(const struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    const struct graph_resize *r = &l->out->resize;
    if (l->out->on_cpu || !lower_has_program(l) || r->mode != INTERPOLATE_NEAREST ||
        x->n_dims != 4 || y->n_dims != 4)
        return 0;
    for (int i = 2; i < 4; i++) {
        uint32_t in = x->dims[i], out = y->dims[i], times = in ? out / in : 0;
        bool same = times && times * in == out;
        for (uint32_t o = 0; same && o < out; o++)
            same = (uint32_t)nearest_of(r, in, out, o) == o / times;
        if (!same)
            return lower_refuse(l, e,
                                "its attributes take other pixels than those that are "
                                "repeated on the NPU");
    }
    return 0;
}

// The defaults of the attributes are ONNX's.
int lower_resize(struct rknn_lowering *l, struct error *e)
{
    static const char *const coordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                              "asymmetric"};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    uint32_t c, m, r;
    if (lower_pick(l, "coordinate_transformation_mode", "half_pixel", coordinates, 4, &c, e) < 0 ||
        lower_pick(l, "mode", "nearest", modes, 3, &m, e) < 0 ||
        lower_pick(l, "nearest_mode", c == COORDINATES_ASYMMETRIC ? "floor" : "round_prefer_floor",
                   nearest, 4, &r, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->resize =
        (struct graph_resize){.mode = m,
                              .coordinates = c,
                              .nearest = r,
                              .cubic_a = (float)rknn_attr_float(l->node, "cubic_coeff_a", -0.75),
                              .exclude_outside = rknn_attr_int(l->node, "exclude_outside", 0) != 0};
    int status = take_scales(l, 2, e);
    status = status < 0 ? status : take_halves(l, e);
    return status < 0 ? status : check_repeats(l, e);
}

// What was before Resize: its corners lie on each other, and the nearest pixel is that before.
int lower_upsample(struct rknn_lowering *l, struct error *e)
{
    static const char *const modes[] = {"nearest", "linear"};
    uint32_t m;
    if (lower_pick(l, "mode", "nearest", modes, 2, &m, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->resize = (struct graph_resize){
        .mode = m, .coordinates = COORDINATES_ASYMMETRIC, .nearest = NEAREST_FLOOR};
    l->out->n_inputs = 1;
    int r = take_scales(l, 1, e);
    return r < 0 ? r : check_repeats(l, e);
}

// Inputs: image and grid [N, H, W, 2] of positions from -1 to 1.
int lower_grid_sample(struct rknn_lowering *l, struct error *e)
{
    static const char *const modes[] = {"bilinear", "nearest"};
    static const char *const outside[] = {"zeros", "border", "reflection"};
    uint32_t m, o;
    if (lower_pick(l, "mode", "bilinear", modes, 2, &m, e) < 0 ||
        lower_pick(l, "padding_mode", "zeros", outside, 3, &o, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->grid.align_corners = rknn_attr_int(l->node, "align_corners", 0) != 0;
    l->out->grid.nearest = m == 1;
    l->out->grid.outside = o;
    return 0;
}
