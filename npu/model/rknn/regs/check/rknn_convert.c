// exDataConvert and Cast: bytes become halves, or halves bytes. What files have, zp and scale those
// of the bytes:
//
//     RK3576, RV1126B    one task: BN adds -zp, the output is (v * factor >> shift) * 2^-exponent
//     RK3566, RK3568     one task makes halves of the bytes; the next one adds -zp and multiplies
//                        with the scale, both in BS; so does a Cast of RK3588, by 0 and 1
//     RK3566, RK3568     halves: BS multiplies with 1 / scale, BN adds zp
//
// All other units are off and nothing is bounded. Whatever else converts is not understood.
#include <math.h>

#include "npu/model/rknn/regs/check/rknn_real.h"
#include "tensor/convert.h"

#define SCALE_ERROR 1e-3 // relative, of a scale in 15 bits or in half precision

struct task {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    int32_t zp;
    double scale;
    const struct rknn_state *s;
};

struct row {
    enum rknn_register reg;
    uint32_t mask, value;
};

static int check(const struct task *t, enum rknn_register reg, bool right, struct error *e)
{
    uint32_t any;
    if (right || !rknn_regs_get(t->regs, reg, &any))
        return 0;
    return rknn_regs_refuse(t->regs, reg, t->s->value[reg],
                            "that is not known where bytes become halves", e);
}

static int check_rows(const struct task *t, const struct row *rows, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (check(t, rows[i].reg, (t->s->value[rows[i].reg] & rows[i].mask) == rows[i].value, e) <
            0)
            return STATUS_MODEL_INVALID;
    return 0;
}

// The reader and the units see the same size.
static int check_sizes(const struct task *t, struct error *e)
{
    static const enum rknn_register pairs[][2] = {{RDMA_WIDTH, DPU_DATA_CUBE_WIDTH},
                                                  {RDMA_HEIGHT, DPU_DATA_CUBE_HEIGHT},
                                                  {RDMA_CHANNEL, DPU_DATA_CUBE_CHANNEL}};
    const uint32_t *v = t->s->value;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bool same = rknn_bits(v[pairs[i][0]], 12, 0) == rknn_bits(v[pairs[i][1]], 12, 0);
        if (check(t, pairs[i][0], same, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    return 0;
}

// Every bit of the format is known, and the reader has its precisions once more.
static int check_format(const struct task *t, bool back, struct error *e)
{
    enum { BYTES = 0x40000000, HALVES = 0x48000002, TO_BYTES = 0x08000002 };
    uint32_t format = t->s->value[DPU_DATA_FORMAT], reader = t->s->value[RDMA_FEATURE_MODE_CFG];
    bool known = back ? format == TO_BYTES
                      : format == BYTES ||
                            (format == HALVES && t->regs->chip->generation != CHIP_GEN_RK3576);
    bool same = rknn_bits(reader, 17, 15) == rknn_bits(format, 28, 26) &&
                rknn_bits(reader, 7, 5) == rknn_bits(format, 2, 0);
    int r = check(t, DPU_DATA_FORMAT, known, e);
    r = r < 0 ? r : check(t, RDMA_FEATURE_MODE_CFG, same, e);
    return r < 0 ? r : check(t, RDMA_SRC_DMA_CFG, !t->s->value[RDMA_SRC_DMA_CFG], e);
}

static bool is_scale(const struct task *t, double value)
{
    return fabs(value - t->scale) <= SCALE_ERROR * t->scale;
}

// ---- RK3576, RV1126B ----

// What BN adds is in a tensor, twice.
static bool adds_zero_point(const struct task *t)
{
    enum { AGAIN_AT = 16, LEAST = 20 };
    int32_t index = t->s->tensor[RDMA_BN_BASE];
    struct bytes b = index < 0 ? (struct bytes){0} : t->f->tensors[index].data;
    return b.size >= LEAST && (int32_t)read_le32(b.data) == -t->zp &&
           (int32_t)read_le32(b.data + AGAIN_AT) == -t->zp;
}

static int check_newer(const struct task *t, struct error *e)
{
    enum { FACTOR = 0x7fff, ONE_STEP = 1 };
    static const enum rknn_register first[] = {DPU_BS_LOW_0, DPU_BS_LOW_1, DPU_BN_LOW_0,
                                               DPU_BN_LOW_1, DPU_EW_LOW_0, DPU_EW_LOW_1};
    static const struct row rows[] = {
        {DPU_BS_CFG, UINT32_MAX, 0x53},      {DPU_BN_CFG, UINT32_MAX, 0x920},
        {DPU_EW_CFG, UINT32_MAX, 0x10041c1}, {RDMA_BS_CFG, UINT32_MAX, 0},
        {RDMA_BN_CFG, UINT32_MAX, 2},        {DPU_OUT_CVT_SCALE, ~(uint32_t)FACTOR, 0x10000},
        {DPU_OUT_CVT_SHIFT, 0xfff00fc0u, 0}, // neither more bits nor another rule for halves
    };
    const uint32_t *v = t->s->value, shift = v[DPU_OUT_CVT_SHIFT];
    double by = ldexp(v[DPU_OUT_CVT_SCALE] & FACTOR,
                      -(int)(rknn_bits(shift, 5, 0) + rknn_bits(shift, 19, 12)));
    int r = check_rows(t, rows, sizeof rows / sizeof *rows, e);
    r = r < 0 ? r : check(t, DPU_OUT_CVT_SHIFT, is_scale(t, by), e);
    r = r < 0 ? r : check(t, DPU_OUT_CVT_OFFSET, v[DPU_OUT_CVT_OFFSET] <= ONE_STEP, e);
    r = r < 0 ? r : check(t, RDMA_BN_BASE, adds_zero_point(t), e);
    for (size_t i = 0; i < sizeof first / sizeof *first && r == 0; i++) {
        r = check(t, first[i], v[first[i]] == 0x80000000, e);
        r = r < 0 ? r : check(t, first[i] + 1, v[first[i] + 1] == INT32_MAX, e);
    }
    return r;
}

// ---- RK3566, RK3568 ----

static int check_older(const struct task *t, struct error *e)
{
    enum { PRECISIONS = 7, INT8 = 0, OFF = 0x53, RK3566_ON = 0x48, RK3588_ON = 0x20040 };
    uint32_t on = t->regs->chip->generation == CHIP_GEN_RK3588 ? RK3588_ON : RK3566_ON;
    bool bytes = (t->s->value[DPU_DATA_FORMAT] & PRECISIONS) == INT8;
    const struct row rows[] = {
        {DPU_BS_CFG, UINT32_MAX, bytes ? OFF : on},
        {DPU_BN_CFG, UINT32_MAX, OFF},
        {DPU_EW_CFG, UINT32_MAX, 0x383},
        {DPU_OUT_CVT_SCALE, 0xffff, 1},
        {DPU_OUT_CVT_OFFSET, UINT32_MAX, 0},
        {DPU_OUT_CVT_SHIFT, UINT32_MAX, 0},
    };
    uint32_t factor = t->s->value[DPU_BS_MUL_CFG];
    int r = check_rows(t, rows, sizeof rows / sizeof *rows, e);
    if (r < 0 || bytes)
        return r;
    bool adds = t->s->value[DPU_BS_ALU_CFG] == float_bits((float)-t->zp);
    bool scales =
        !(factor & 0xffff) && is_scale(t, (double)convert_fp16_to_float((uint16_t)(factor >> 16)));
    r = check(t, DPU_BS_ALU_CFG, adds, e);
    return r < 0 ? r : check(t, DPU_BS_MUL_CFG, scales, e);
}

static int check_back(const struct task *t, struct error *e)
{
    static const struct row rows[] = {
        {DPU_BS_CFG, UINT32_MAX, 0x42},
        {DPU_BN_CFG, UINT32_MAX, 0x58},
        {DPU_EW_CFG, UINT32_MAX, 0x3c3},
        {DPU_OUT_CVT_SCALE, 0xffff, 1},
        {DPU_OUT_CVT_OFFSET, UINT32_MAX, 0},
        {DPU_OUT_CVT_SHIFT, UINT32_MAX, 0},
        {DPU_DATA_FORMAT, 0xfc000007, 2 | 2u << 26},
    };
    uint32_t factor = t->s->value[DPU_BS_MUL_CFG];
    int r = check_rows(t, rows, sizeof rows / sizeof *rows, e);
    bool adds = t->s->value[DPU_BN_ALU_CFG] == float_bits((float)t->zp);
    bool scales = !(factor & 0xffff) &&
                  is_scale(t, 1 / (double)convert_fp16_to_float((uint16_t)(factor >> 16)));
    r = r < 0 ? r : check(t, DPU_BN_ALU_CFG, adds, e);
    return r < 0 ? r : check(t, DPU_BS_MUL_CFG, scales, e);
}

// ---- nodes ----

static int check_any(const struct task *t, enum chip_generation g, bool back, struct error *e)
{
    int r = check_sizes(t, e);
    r = r < 0 ? r : check_format(t, back, e);
    if (r < 0)
        return r;
    return back ? check_back(t, e) : g == CHIP_GEN_RK3576 ? check_newer(t, e) : check_older(t, e);
}

// Of which operators, types and chips files are known.
static bool is_known(const struct rknn_node *n, uint8_t from, uint8_t to, enum chip_generation g)
{
    bool bytes = from == RKNN_I8 && to == RKNN_F16, back = from == RKNN_F16 && to == RKNN_I8;
    if (strcmp(n->op, "exDataConvert") == 0)
        return (bytes && (g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3566)) ||
               (back && g == CHIP_GEN_RK3566);
    return strcmp(n->op, "Cast") == 0 && bytes && g == CHIP_GEN_RK3588;
}

static bool converts(const struct rknn_regs *regs, const struct rknn_node *n)
{
    uint32_t any;
    return (strcmp(n->op, "exDataConvert") == 0 || strcmp(n->op, "DataConvert") == 0 ||
            strcmp(n->op, "Cast") == 0) &&
           rknn_regs_get(regs, DPU_FEATURE_MODE_CFG, &any);
}

int rknn_convert_known(const struct rknn_regs *regs, const struct rknn_file *f,
                       const struct rknn_node *n, struct error *e)
{
    enum chip_generation g = regs->chip->generation;
    struct task t = {.regs = regs, .f = f, .scale = 1};
    struct rknn_walk w;
    int r = 0;
    if (!converts(regs, n) || !n->n_inputs || n->inputs[0] < 0 || !n->n_outputs ||
        n->outputs[0] < 0)
        return 0;
    const struct rknn_tensor *x = &f->tensors[n->inputs[0]], *y = &f->tensors[n->outputs[0]];
    if (!is_known(n, x->type, y->type, g))
        return error_set(e, STATUS_MODEL_INVALID, "how its registers convert is not known");
    bool back = y->type == RKNN_I8;
    if (g != CHIP_GEN_RK3588) {
        t.scale = (double)(back ? y : x)->scale;
        t.zp = (back ? y : x)->zp;
    }
    rknn_walk_begin(&w, regs);
    while (r == 0 && (t.s = rknn_walk_next(&w)) != NULL)
        r = check_any(&t, g, back, e);
    return r;
}
