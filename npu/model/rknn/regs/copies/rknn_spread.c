// One byte for each channel goes to all pixels of the output: the image is padded by what the
// kernel repeats, so that nothing may be left of padding, of factors and of what other units do.
//
// All such tasks of the shared files have these values.
//
// A Pad of halves copies the image, and fills what is around it with a number that BN adds to the
// product with 0. It reads what it fills, as words.
#include "npu/model/rknn/regs/copies/rknn_spread.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"
#include "npu/model/rknn/regs/copies/rknn_units.h"
#include "tensor/convert.h"

static int is(const struct rknn_regs *regs, const struct rknn_state *s, enum rknn_register reg,
              uint32_t mask, uint32_t expected, struct error *e)
{
    uint32_t any;
    if (!rknn_regs_get(regs, reg, &any) || (s->value[reg] & mask) == expected)
        return 0;
    return rknn_regs_refuse(regs, reg, s->value[reg], "that is not known where bytes are spread",
                            e);
}

static int check_task(const struct rknn_regs *regs, const struct rknn_state *s, struct error *e)
{
    enum { PADS = 0xff };
    const struct {
        enum rknn_register reg;
        uint32_t mask, value;
    } rows[] = {
        {DPU_BS_MUL_CFG, UINT32_MAX, 0},
        {CNA_PAD_CON0, PADS, 0},
        {CNA_PADDING, UINT32_MAX, 0},
        {CNA_CONV_CON3, UINT32_MAX, 0}, // it never goes on to another pixel
        {CNA_FC_DATA_SIZE0, UINT32_MAX, s->value[CNA_DATA_SIZE0]},
        {CNA_FC_DATA_SIZE1, 0xffff, s->value[CNA_DATA_SIZE1] & 0xffff},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is(regs, s, rows[i].reg, rows[i].mask, rows[i].value, e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}

// A kernel for each channel that there is, of the bytes of one tap. RK3576, RV1126B and RK3562 make
// no others; older chips fill up blocks, and say in the upper half how many there are.
static int check_kernels(const struct rknn_regs *regs, const struct rknn_state *s, struct error *e)
{
    enum { BYTES = 0x7ffff };
    enum chip_generation g = regs->chip->generation;
    const uint32_t *v = s->value, cube = v[DPU_DATA_CUBE_CHANNEL];
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    uint32_t kernels = (newer ? rknn_bits(cube, 12, 0) : rknn_bits(cube, 28, 16)) + 1;
    uint32_t counted = g == CHIP_GEN_RK3576 ? kernels - 1 : kernels;
    uint32_t bytes = (v[CNA_WEIGHT_SIZE1] & BYTES) * kernels;
    int r =
        rknn_fit(regs, s, CNA_WEIGHT_SIZE2, rknn_bits(v[CNA_WEIGHT_SIZE2], 13, 0) == counted, e);
    return r < 0 ? r : rknn_fit(regs, s, CNA_WEIGHT_SIZE0, v[CNA_WEIGHT_SIZE0] == bytes, e);
}

// Each task makes whole planes of a part of the output's channels, by one tap for each: all units
// on the way have the same channels, of which RK3562's core may make more.
static int check_places(const struct rknn_regs *regs, const struct rknn_state *s,
                        const struct rknn_tensor *x, const struct rknn_tensor *y, struct error *e)
{
    enum { KERNEL = 0x7ffff, ONE_TAP = 0x101 };
    const uint32_t *v = s->value, atom = rknn_fit_atom(regs);
    enum chip_generation g = regs->chip->generation;
    uint32_t channels = rknn_bits(v[DPU_DATA_CUBE_CHANNEL], 12, 0), size = v[DPU_WRITE_SIZE_0];
    uint32_t core = v[CORE_DATAOUT_SIZE_1] & 0xffff;
    uint32_t written = g == CHIP_GEN_RK3588 ? rknn_bits(size, 12, 0) : size >> 16;
    uint32_t tap = g == CHIP_GEN_RK3576 ? 0 : ONE_TAP; // which counts from 0
    if (x->n_dims != 4 || y->n_dims != 4 || y->layout != RKNN_NC1HWC2)
        return error_set(e, STATUS_MODEL_INVALID, "how its registers spread bytes is not known");
    uint64_t plane = (uint64_t)y->dims[2] * y->dims[3],
             stride = rknn_fit_bytes(regs, s, DPU_DST_SURF_STRIDE);
    int r = rknn_fit(regs, s, DPU_DST_SURF_STRIDE,
                     rknn_fit_own_plane(regs, plane, stride, false, false), e);
    r = r < 0 ? r : rknn_fit(regs, s, DPU_DATA_CUBE_NOTCH, !v[DPU_DATA_CUBE_NOTCH], e);
    r = r < 0 ? r
              : rknn_fit(regs, s, CORE_DATAOUT_SIZE_1,
                         core == channels || (g == CHIP_GEN_RK3562 && core > channels), e);
    if (r == 0 && g != CHIP_GEN_RK3566 && g != CHIP_GEN_RV1106)
        r = rknn_fit(regs, s, DPU_WRITE_SIZE_0, written == channels, e);
    r = r < 0 ? r
              : rknn_fit(regs, s, CNA_WEIGHT_SIZE1,
                         (v[CNA_WEIGHT_SIZE1] & KERNEL) == align_up(x->dims[1], atom), e);
    r = r < 0 ? r : rknn_fit(regs, s, CNA_WEIGHT_SIZE2, v[CNA_WEIGHT_SIZE2] >> 16 == tap, e);
    return r < 0 ? r : check_kernels(regs, s, e);
}

int rknn_spread_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct rknn_walk w;
    const struct rknn_state *s;
    uint32_t any; // a program that sets no mode is none for units
    const bool programmed = rknn_regs_get(regs, DPU_FEATURE_MODE_CFG, &any);
    if (strcmp(n->op, "Expand") != 0 || !n->n_inputs || n->inputs[0] < 0 || !n->n_outputs ||
        n->outputs[0] < 0 || f->tensors[n->outputs[0]].type != RKNN_I8)
        return 0;
    const struct rknn_tensor *x = &f->tensors[n->inputs[0]], *y = &f->tensors[n->outputs[0]];
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL)
        if (!(s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) &&
            (check_task(regs, s, e) < 0 ||
             (programmed &&
              (check_places(regs, s, x, y, e) < 0 || rknn_units_copy(regs, f, s, y->zp, e) < 0))))
            return STATUS_MODEL_INVALID;
    return 0;
}

// ---- Pad of halves ----

struct padding {
    const struct rknn_regs *regs;
    const struct rknn_tensor *x, *y;
    const struct graph_node *out;
    uint64_t written; // pixels of a plane
    bool copied;
};

static int check(const struct rknn_regs *regs, const struct rknn_state *s, enum rknn_register reg,
                 bool right, struct error *e)
{
    return right ? 0 : rknn_regs_refuse(regs, reg, s->value[reg], "its Pad is another one", e);
}

// Where the task writes, in a plane of the output; false: not in lines of it.
static bool find_place(const struct padding *p, const struct rknn_state *s, uint32_t ret[4])
{
    uint64_t surface = rknn_fit_bytes(p->regs, s, DPU_DST_SURF_STRIDE),
             atom = rknn_fit_atom(p->regs);
    if (!p->y->dims[3])
        return false;
    uint64_t at = surface ? s->value[DPU_DST_BASE] % surface / atom : 0;
    ret[0] = (uint32_t)(at / p->y->dims[3]);
    ret[1] = (uint32_t)(at % p->y->dims[3]);
    ret[2] = rknn_bits(s->value[DPU_DATA_CUBE_HEIGHT], 12, 0) + 1;
    ret[3] = rknn_bits(s->value[DPU_DATA_CUBE_WIDTH], 12, 0) + 1;
    return ret[0] + ret[2] <= p->y->dims[2] && ret[1] + ret[3] <= p->y->dims[3] &&
           ret[3] + s->value[DPU_DATA_CUBE_NOTCH] == p->y->dims[3];
}

enum { BYPASS = 0x53, BYPASS_SUM = 0x383 }; // of BS and BN; of EW

static int check_unscaled(const struct padding *p, const struct rknn_state *s, struct error *e)
{
    const uint32_t *v = s->value;
    int r = check(p->regs, s, DPU_OUT_CVT_SCALE, (v[DPU_OUT_CVT_SCALE] & 0xffff) == 1, e);
    r = r < 0 ? r : check(p->regs, s, DPU_OUT_CVT_SHIFT, !v[DPU_OUT_CVT_SHIFT], e);
    return r < 0 ? r : check(p->regs, s, DPU_OUT_CVT_OFFSET, !v[DPU_OUT_CVT_OFFSET], e);
}

static int check_copy(struct padding *p, const struct rknn_state *s, const uint32_t at[4],
                      struct error *e)
{
    const uint32_t *x = p->x->dims, *v = s->value;
    uint64_t plane = (uint64_t)x[2] * x[3] * rknn_fit_atom(p->regs);
    bool whole = at[2] == x[2] && at[3] == x[3] && !v[RDMA_SRC_BASE] &&
                 at[0] == p->out->pad.begin[2] && at[1] == p->out->pad.begin[3];
    int r = check(p->regs, s, DPU_DST_BASE, whole && !p->copied, e);
    r = r < 0 ? r : check(p->regs, s, RDMA_SRC_DMA_CFG, !v[RDMA_SRC_DMA_CFG], e);
    p->copied = true;
    r = r < 0 ? r : check(p->regs, s, DPU_BS_CFG, v[DPU_BS_CFG] == BYPASS, e);
    r = r < 0 ? r : check(p->regs, s, DPU_BN_CFG, v[DPU_BN_CFG] == BYPASS, e);
    r = r < 0 ? r : check(p->regs, s, DPU_EW_CFG, v[DPU_EW_CFG] == BYPASS_SUM, e);
    r = r < 0 ? r : check_unscaled(p, s, e);
    return r < 0 ? r
                 : check(p->regs, s, RDMA_SURF_NOTCH,
                         rknn_fit_own_plane(p->regs, (uint64_t)x[2] * x[3],
                                            plane + v[RDMA_SURF_NOTCH], false, false),
                         e);
}

// Around the image: none of its pixels.
static int check_fill(const struct padding *p, const struct rknn_state *s, const uint32_t at[4],
                      struct error *e)
{
    enum { MULTIPLIES = 0x42, ADDS = 0x20050 };
    const uint32_t *v = s->value, *begin = p->out->pad.begin;
    bool beside = at[0] >= begin[2] + p->x->dims[2] || at[0] + at[2] <= begin[2] ||
                  at[1] >= begin[3] + p->x->dims[3] || at[1] + at[3] <= begin[3];
    uint16_t number = convert_float_to_fp16(p->out->pad.value);
    int r = check(p->regs, s, DPU_DST_BASE, beside, e);
    r = r < 0 ? r : check(p->regs, s, DPU_BS_CFG, v[DPU_BS_CFG] == MULTIPLIES, e);
    r = r < 0 ? r : check(p->regs, s, DPU_BS_MUL_CFG, !v[DPU_BS_MUL_CFG], e);
    r = r < 0 ? r : check(p->regs, s, DPU_BN_CFG, v[DPU_BN_CFG] == ADDS, e);
    r = r < 0 ? r : check(p->regs, s, DPU_EW_CFG, v[DPU_EW_CFG] == BYPASS_SUM, e);
    r = r < 0
            ? r
            : check(p->regs, s, DPU_BN_ALU_CFG, v[DPU_BN_ALU_CFG] == (uint32_t)(int16_t)number, e);
    return r < 0 ? r : check_unscaled(p, s, e);
}

static int check_pad_task(struct padding *p, const struct rknn_state *s, struct error *e)
{
    enum { HALVES = 0x48000002, WORDS = 0x24000001 };
    uint32_t at[4], format = s->value[DPU_DATA_FORMAT];
    uint32_t reader = s->value[RDMA_FEATURE_MODE_CFG], precision = format & 7;
    if (format != HALVES && format != WORDS)
        return check(p->regs, s, DPU_DATA_FORMAT, false, e);
    if (rknn_bits(reader, 17, 15) != precision || rknn_bits(reader, 7, 5) != precision)
        return check(p->regs, s, RDMA_FEATURE_MODE_CFG, false, e);
    if (!find_place(p, s, at))
        return check(p->regs, s, DPU_DATA_CUBE_WIDTH, false, e);
    uint64_t plane = (uint64_t)p->y->dims[2] * p->y->dims[3];
    uint64_t stride = rknn_fit_bytes(p->regs, s, DPU_DST_SURF_STRIDE);
    int r = check(p->regs, s, DPU_DST_SURF_STRIDE,
                  rknn_fit_own_plane(p->regs, plane, stride, false, false), e);
    uint32_t channels = rknn_bits(s->value[DPU_DATA_CUBE_CHANNEL], 12, 0) + 1;
    uint32_t read = s->value[RDMA_CHANNEL] + 1, written = s->value[DPU_WRITE_SIZE_0] + 1;
    r = r < 0 ? r : check(p->regs, s, DPU_DATA_CUBE_CHANNEL, channels >= p->y->dims[1], e);
    r = r < 0 ? r : check(p->regs, s, RDMA_CHANNEL, read == channels, e);
    if (r == 0 && p->regs->chip->generation == CHIP_GEN_RK3588)
        r = check(p->regs, s, DPU_WRITE_SIZE_0, written == channels, e);
    p->written += (uint64_t)at[2] * at[3];
    if (r < 0)
        return r;
    return format == HALVES ? check_copy(p, s, at, e) : check_fill(p, s, at, e);
}

int rknn_pad_known(const struct rknn_regs *regs, const struct rknn_file *f,
                   const struct rknn_node *n, const struct graph_node *out, struct error *e)
{
    struct rknn_walk w;
    const struct rknn_state *s;
    uint32_t any;
    struct padding p = {.regs = regs, .out = out};
    if (out->op != GRAPH_PAD || !n->n_inputs || n->inputs[0] < 0 || n->outputs[0] < 0 ||
        !rknn_regs_get(regs, DPU_FEATURE_MODE_CFG, &any))
        return 0;
    p.x = &f->tensors[n->inputs[0]];
    p.y = &f->tensors[n->outputs[0]];
    if (p.y->type != RKNN_F16)
        return 0;
    if (p.y->n_dims != 4 || p.x->n_dims != 4 || out->pad.mode != PAD_CONSTANT ||
        out->pad.begin[0] || out->pad.begin[1] || p.x->dims[1] != p.y->dims[1] ||
        f->container.kind == RKNN_LITE)
        return error_set(e, STATUS_MODEL_INVALID, "how its registers pad halves is not known");
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL)
        if (check_pad_task(&p, s, e) < 0)
            return STATUS_MODEL_INVALID;
    if (p.copied && p.written == (uint64_t)p.y->dims[2] * p.y->dims[3])
        return 0;
    return error_set(e, STATUS_MODEL_INVALID, "its tasks write %llu pixels of %llu",
                     (unsigned long long)p.written,
                     (unsigned long long)p.y->dims[2] * p.y->dims[3]);
}
