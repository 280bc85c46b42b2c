// Operators of .rknn files that sample images: Resize, GridSample.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/check/rknn_moves.h"

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
    if (rknn_moves_edged(l->f, l->node, l->inputs[0]) >= 0)
        return lower_refuse(l, e, "its tasks interpolate, which is not the nearest pixel");
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
    status = status < 0 ? status : lower_phases(l, e);
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
    r = r < 0 ? r : lower_phases(l, e);
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
