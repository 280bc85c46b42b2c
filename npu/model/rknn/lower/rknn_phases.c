// How the NPU interpolates: an image is made 2 to 8 times larger by a convolution for each phase of
// lines and columns, from a copy with one more line and column at each edge (rknn_moves.c):
//
//     positions from half a pixel on, twice as large:      phase 0         phase 1
//         output pixel     0   1   2   3                   1/4 3/4         3/4 1/4
//         copy's pixel   0   1   2                         from 0 on       from 1 on
//
// Weights are integers from 0 to 255, factor times their parts of the whole, and the output is
// divided by factor times the whole: by a multiplication that is exact to 15 bits. So halves become
// a little less, or more, than halves.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/check/rknn_fit.h"
#include "npu/model/rknn/regs/check/rknn_moves.h"

#define MAX_TIMES 8
#define NO_HALVES ((enum graph_halves)3)
#define TAPS      4 // 2 x 2

struct phases {
    uint32_t times[2], width; // of the output
    const struct rknn_tensor *copy;
    int32_t copy_index;
    enum graph_halves halves[MAX_TIMES * MAX_TIMES];
};

// The convolution's units do nothing but what is told above: each channel by itself, with a bias of
// its own, in order. These are the values of all files; none is for RV1103 or RV1106.
static bool divides_only(const struct rknn_lowering *l, const struct rknn_state *t)
{
    const uint32_t all = UINT32_MAX, offset = (uint32_t)lower_output(l, 0)->zp;
    const struct {
        enum rknn_register reg;
        uint32_t mask, value[CHIP_N_GENERATIONS];
    } units[] = {
        // RK3588, RK3576, RK3562, RV1106, RK3566
        {CNA_CONV_CON1, 0xcfffffff, {3, 1, 1, 0, 3}}, // but for its lines
        {CORE_MISC_CFG, 0x270f, {3, 0xa, 0xa, 0, 2}},
        {CORE_CLIP_TRUNCATE, all, {0}},
        {DPU_FEATURE_MODE_CFG, 0xfe00001f, {0x1c, 0x4000000c, 0xc, 0, 0x18}},
        {DPU_DATA_FORMAT, 0xfc000007, {0}},
        {DPU_BS_CFG, all, {0x20150, 0x100092, 0x100092, 0, 0x158}},
        {DPU_BS_MUL_CFG, all, {0}},
        {DPU_BS_OW_CFG, 0x080f0003, {0, 0x20003, 2, 0, 0}},
        {DPU_BN_CFG, all, {0x53, 0x903, 0x13, 0, 0x53}},
        {DPU_EW_CFG, all, {0x383, 0x10041c1, 0x10041c1, 0, 0x383}},
        {RDMA_BS_CFG, all, {2, 0x110, 2, 0, 2}},
        {DPU_OUT_CVT_OFFSET, all, {offset, offset, offset, offset, offset}},
    };
    enum chip_generation g = l->chip->generation;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if ((t->value[units[i].reg] & units[i].mask) != units[i].value[g])
            return false;
    return g != CHIP_GEN_RV1106 && t->value[DPU_OUT_CVT_SHIFT] >> 6 == 0;
}

// What a task divides by, factor times the whole, is an integer, which its multiplication is the
// nearest to, up or down; 0: it is none.
static double divisor_of(const struct phases *p, const struct rknn_state *t)
{
    double scale = t->value[DPU_OUT_CVT_SCALE] & 0xffff;
    double one = ldexp(1, (int)t->value[DPU_OUT_CVT_SHIFT]), by = nearbyint(one / scale);
    bool near = scale > 0 && fabs(scale * by - one) < by;
    return !near || fmod(by, 4.0 * p->times[0] * p->times[1]) > 0 ? 0 : by;
}

// What a task's division makes of halves.
static enum graph_halves halves_of(const struct rknn_state *t, double by)
{
    double scale = t->value[DPU_OUT_CVT_SCALE] & 0xffff;
    double one = ldexp(1, (int)t->value[DPU_OUT_CVT_SHIFT]);
    return scale * by < one ? HALVES_TOWARDS : scale * by > one ? HALVES_AWAY : HALVES_EVEN;
}

// The pixels of a line are written apart from each other, all channels of all of them.
static bool writes_lines(const struct rknn_lowering *l, const struct rknn_state *t, uint32_t w)
{
    enum { CHANNELS = 0x1fff };
    uint32_t said = t->value[DPU_WRITE_SIZE_0];
    uint32_t cube = t->value[DPU_DATA_CUBE_CHANNEL];
    uint32_t all = w * ((cube & CHANNELS) + 1) - 1;
    switch (l->chip->generation) {
    case CHIP_GEN_RK3588:
        return (said & CHANNELS) == (all & CHANNELS);
    case CHIP_GEN_RK3576:
    case CHIP_GEN_RK3562:
        return said >> 16 == all;
    default: // RK3566 and RK3568 count them in the cube itself, beside the channels of a pixel
        return (cube & CHANNELS) == ((w * ((cube >> 16) + 1) - 1) & CHANNELS);
    }
}

// Between two of a line's pixels are those of the other phases, and between two lines those of
// theirs. RK3576 and RV1126B have what is behind a line's last pixel.
static bool writes_apart(const struct rknn_lowering *l, const struct phases *p,
                         const struct rknn_state *t, uint32_t w)
{
    enum chip_generation g = l->chip->generation;
    uint32_t gap = p->times[1] - 1, line = p->times[0] * p->width;
    bool twice = g == CHIP_GEN_RK3588 || g == CHIP_GEN_RK3566;
    uint64_t behind = line - (g == CHIP_GEN_RK3576 ? (w - 1) * p->times[1] + 1 : 0);
    return t->value[DPU_DATA_CUBE_NOTCH] == (twice ? gap << 16 | gap : gap) &&
           rknn_fit_bytes(l->regs, t, DPU_SURFACE_ADD) == behind * rknn_fit_atom(l->regs);
}

// RK3588, RK3566 and RK3568 say twice how many channels the image has, once of the last 64, or 32.
static bool reads_channels(const struct rknn_lowering *l, const struct rknn_state *t)
{
    uint32_t real = t->value[CNA_DATA_SIZE1] >> 16, last = lower_input(l, 0)->dims[1] - 1;
    enum chip_generation g = l->chip->generation;
    if (g != CHIP_GEN_RK3588 && g != CHIP_GEN_RK3566)
        return true;
    return real == last || real == last % (g == CHIP_GEN_RK3588 ? 64 : 32);
}

// Lines and planes of the copy with edges, in atoms: of one line, or, as a bit says, of four.
// RK3588 goes from a line's end to the next plane.
static bool has_strides(const struct rknn_lowering *l, const struct phases *p,
                        const struct rknn_state *t)
{
    enum { STRIDE = 0xfffffff };
    uint32_t lines = rknn_fit_stride_lines(l->regs, t->value[CNA_CONV_CON1]);
    uint32_t line = t->value[CNA_LINE_STRIDE] & STRIDE, width = t->value[CNA_DATA_SIZE0] >> 16;
    bool goes_on = l->chip->generation == CHIP_GEN_RK3588;
    uint32_t behind = goes_on ? (lines == 1 ? width : line) : 0;
    uint64_t surface = (t->value[CNA_SURF_STRIDE] + behind) & STRIDE;
    uint64_t plane = (uint64_t)p->copy->dims[2] * p->copy->dims[3], atom = rknn_fit_atom(l->regs);
    return line == p->copy->dims[3] * lines &&
           (p->copy->dims[1] <= atom || rknn_fit_plane(l->regs, plane, surface * atom));
}

// Windows of 2 x 2, without padding, of the copy with edges.
static bool has_windows(const struct rknn_lowering *l, const struct phases *p,
                        const struct rknn_state *t)
{
    enum { STEPS_OF_ONE = 9, PADS = 0xff, KERNEL = 0x202, ONE_EACH = 0x101 };
    const uint32_t *v = t->value;
    uint32_t less = l->chip->generation == CHIP_GEN_RK3576 ? 1 : 0;
    uint32_t w = (v[CORE_DATAOUT_SIZE_0] & 0xffff) + 1, h = (v[CORE_DATAOUT_SIZE_0] >> 16) + 1;
    uint32_t from_w = (v[CNA_DATA_SIZE0] >> 16) + less;
    uint32_t from_h = (v[CNA_DATA_SIZE0] & 0xffff) + less;
    uint32_t channels = v[CNA_DATA_SIZE1] & 0xffff, made = (v[CORE_DATAOUT_SIZE_1] & 0xffff) + 1;
    bool padded = l->chip->generation == CHIP_GEN_RK3576 || l->chip->generation == CHIP_GEN_RK3562
                      ? v[CNA_PADDING]
                      : v[CNA_PAD_CON0] & PADS;
    uint64_t plane = (uint64_t)lower_output(l, 0)->dims[2] * p->width;
    bool placed = rknn_fit_plane(l->regs, plane, rknn_fit_bytes(l->regs, t, DPU_DST_SURF_STRIDE)) &&
                  v[CNA_FC_DATA_SIZE0] == v[CNA_DATA_SIZE0] &&
                  (v[CNA_WEIGHT_SIZE2] >> 16) == KERNEL - less * ONE_EACH;
    return v[CNA_CONV_CON3] == STEPS_OF_ONE && !padded && placed && writes_lines(l, t, w) &&
           writes_apart(l, p, t, w) && reads_channels(l, t) && from_w == w + 1 && from_h == h + 1 &&
           (v[CNA_FC_DATA_SIZE1] & 0xffff) == channels && w + 2 == p->copy->dims[3] &&
           rknn_fit_blocks(made, channels + less);
}

// ---- what a phase takes ----

// Of one dimension: the first of its two lines in the copy, and the second one's part of the whole,
// in halves of a phase's step. False: no phase is like another one by these attributes.
static bool lines_of(const struct graph_resize *r, uint32_t times, uint32_t phase,
                     uint32_t *ret_first, uint32_t *ret_part)
{
    uint32_t whole = 2 * times;
    bool middle = r->coordinates == COORDINATES_HALF_PIXEL ||
                  r->coordinates == COORDINATES_PYTORCH_HALF_PIXEL;
    if (!middle && r->coordinates != COORDINATES_ASYMMETRIC)
        return false;
    uint32_t at = 2 * phase + (middle ? 1 + times : whole); // from a line above the image's first
    *ret_first = at / whole;
    *ret_part = at % whole;
    return true;
}

// The zero point of all weights, which their bytes are less.
static bool has_weights_from_0(const struct rknn_lowering *l, const struct rknn_state *t)
{
    const uint32_t least = 0x80;
    bool own = l->chip->generation == CHIP_GEN_RK3576 || l->chip->generation == CHIP_GEN_RK3562;
    return own ? t->value[CNA_WEIGHT_ZERO] == (least << 8 | least) && !t->value[DPU_BS_OW_OP]
               : t->value[DPU_BS_OW_OP] == least;
}

static bool takes_weights(const struct rknn_lowering *l, const struct rknn_state *t,
                          const uint32_t parts[2], const uint32_t times[2], double by)
{
    const int zero = 0x80;
    int32_t index = t->tensor[CNA_DCOMP_ADDR0];
    uint32_t size = t->value[CNA_WEIGHT_SIZE1] & 0x7ffff, n = size / TAPS;
    uint64_t at = t->value[CNA_DCOMP_ADDR0];
    struct bytes b = index < 0 ? (struct bytes){0} : l->f->tensors[index].data;
    uint32_t made = (t->value[CORE_DATAOUT_SIZE_1] & 0xffff) + 1;
    uint32_t channels = lower_input(l, 0)->dims[1];
    if (!has_weights_from_0(l, t) || !n || at > b.size || b.size - at < size)
        return false;
    uint32_t used = n < made ? n : made;
    used = used < channels ? used : channels;
    for (uint32_t tap = 0; tap < TAPS; tap++) {
        double part = (double)(tap & 2 ? parts[0] : 2 * times[0] - parts[0]) *
                      (tap & 1 ? parts[1] : 2 * times[1] - parts[1]);
        double weight = by * part / (4.0 * times[0] * times[1]);
        for (uint32_t c = 0; c < used; c++)
            if (weight != (int8_t)b.data[at + (size_t)tap * n + c] + zero)
                return false;
    }
    return true;
}

// Whether the task reads the copy from this pixel on.
static bool begins_at(const struct rknn_lowering *l, const struct phases *p,
                      const struct rknn_state *t, const uint32_t first[2])
{
    uint64_t offset = t->value[CNA_FEATURE_BASE], atom = rknn_fit_atom(l->regs);
    uint64_t plane = (uint64_t)p->copy->dims[2] * p->copy->dims[3];
    bool inside = t->tensor[CNA_FEATURE_BASE] >= 0
                      ? t->tensor[CNA_FEATURE_BASE] == p->copy_index
                      : rknn_file_offset(l->f, p->copy_index, t->value[CNA_FEATURE_BASE], &offset);
    uint64_t pixel = (uint64_t)first[0] * p->copy->dims[3] + first[1];
    uint64_t filled = plane <= 1 ? plane : (plane + 3) / 4 * 4;
    return inside && offset % atom == 0 && offset / atom % filled == pixel;
}

// Which phase a task makes follows from where its first pixel lies.
static bool take_phase(const struct rknn_lowering *l, struct phases *p, const struct rknn_state *t,
                       uint32_t first)
{
    uint32_t atom = rknn_fit_atom(l->regs), parts[2], lines[2];
    uint64_t surface = rknn_fit_bytes(l->regs, t, DPU_DST_SURF_STRIDE) / atom;
    double by = divisor_of(p, t);
    if (!surface || !(by > 0))
        return false;
    uint32_t pixel = (uint32_t)((t->value[DPU_DST_BASE] - first) / atom % surface);
    uint32_t y = pixel / p->width % p->times[0], x = pixel % p->width % p->times[1];
    enum graph_halves *to = &p->halves[y * p->times[1] + x], found = halves_of(t, by);
    bool same = *to == NO_HALVES || *to == found;
    *to = found;
    return same && lines_of(&l->out->resize, p->times[0], y, &lines[0], &parts[0]) &&
           lines_of(&l->out->resize, p->times[1], x, &lines[1], &parts[1]) &&
           takes_weights(l, t, parts, p->times, by) && begins_at(l, p, t, lines);
}

// The copy's edges are made of bytes as they are.
static bool only_copies(const struct rknn_state *t)
{
    enum { BYPASS = 1 };
    const uint32_t *v = t->value;
    return v[DPU_BS_CFG] & BYPASS && v[DPU_BN_CFG] & BYPASS && v[DPU_EW_CFG] & BYPASS &&
           (v[DPU_OUT_CVT_SCALE] & 0xffff) == 1 && !v[DPU_OUT_CVT_SHIFT] && !v[DPU_OUT_CVT_OFFSET];
}

static bool interpolates(const struct rknn_state *t)
{
    enum { FROM_MEMORY = 1 };
    return !(t->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY);
}

static bool read_phases(const struct rknn_lowering *l, struct phases *p)
{
    struct rknn_walk w;
    const struct rknn_state *t;
    uint32_t first = UINT32_MAX;
    rknn_walk_begin(&w, l->regs);
    while ((t = rknn_walk_next(&w)) != NULL)
        if (interpolates(t) && t->value[DPU_DST_BASE] < first)
            first = t->value[DPU_DST_BASE];
    bool known = true;
    rknn_walk_begin(&w, l->regs);
    while (known && (t = rknn_walk_next(&w)) != NULL)
        known = !interpolates(t) ? only_copies(t)
                                 : divides_only(l, t) && has_strides(l, p, t) &&
                                       has_windows(l, p, t) && take_phase(l, p, t, first);
    for (uint32_t i = 0; i < p->times[0] * p->times[1]; i++)
        known = known && p->halves[i] != NO_HALVES;
    return known;
}

// ---- a node ----

static int keep(struct rknn_lowering *l, const struct phases *p, struct error *e)
{
    size_t n = (size_t)p->times[0] * p->times[1];
    enum graph_halves *halves = pool_alloc(&l->g->pool, n, sizeof *halves);
    if (!halves)
        return error_no_memory(e, "phases", sizeof p->halves);
    memcpy(halves, p->halves, n * sizeof *halves);
    memcpy(l->out->resize.phases, p->times, sizeof p->times);
    l->out->resize.halves = halves;
    return 0;
}

static bool find_times(const struct rknn_lowering *l, struct phases *p)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    for (int i = 0; i < 2; i++) {
        p->times[i] = x->dims[2 + i] ? y->dims[2 + i] / x->dims[2 + i] : 0;
        if (p->times[i] < 2 || p->times[i] > MAX_TIMES ||
            p->times[i] * x->dims[2 + i] != y->dims[2 + i])
            return false;
    }
    return true;
}

int lower_phases(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    if (l->out->on_cpu || !lower_has_program(l) || l->out->resize.mode == INTERPOLATE_NEAREST)
        return 0;
    struct phases p = {.copy_index = rknn_moves_edged(l->f, l->node, l->inputs[0])};
    for (size_t i = 0; i < sizeof p.halves / sizeof *p.halves; i++)
        p.halves[i] = NO_HALVES;
    bool known = l->out->resize.mode == INTERPOLATE_LINEAR && p.copy_index >= 0 &&
                 y->type == TENSOR_INT8 && x->n_dims == 4 && y->n_dims == 4 && find_times(l, &p) &&
                 x->zp == y->zp && x->scale == y->scale;
    p.width = known ? y->dims[3] : 0;
    p.copy = known ? &l->f->tensors[p.copy_index] : NULL;
    if (!known || !read_phases(l, &p))
        return lower_refuse(l, e, "how its registers interpolate is not known");
    return keep(l, &p, e);
}
