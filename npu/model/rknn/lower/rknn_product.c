// Products of two computed tensors (exMatMul), which the NPU makes as convolutions: input 0 becomes
// the weights, input 1 is the image.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"

// What a factor may be off from the scales: it has 15 bits, the converter's eight.
#define FAR 5e-3

// RK3588's converter brings input 1, less its zero point, into an int8 before it is multiplied:
// (x + offset) * factor >> shift, by CVT_CON; other chips' is not known.
static int take_operand_factor(struct rknn_lowering *l, struct error *e)
{
    enum { WITH_SIGN_OFFSET_FIRST = 0xa };
    for (uint32_t t = 0; t < l->node->n_tasks; t++) {
        uint32_t lane, how = 0;
        if (!rknn_regs_of_task(l->regs, l->f, l->node, t, CNA_CVT_CON1, &lane) || lane >> 16 <= 1)
            continue;
        rknn_regs_of_task(l->regs, l->f, l->node, t, CNA_CVT_CON0, &how);
        const struct graph_tensor *b = lower_input(l, 1);
        if (l->chip->generation != CHIP_GEN_RK3588 || (how & 0xf) != WITH_SIGN_OFFSET_FIRST || !b ||
            b->type != TENSOR_INT8 || (int16_t)lane != -b->zp)
            return lower_refuse(l, e, "how its second input is converted is not known");
        l->out->ex_product.factor = ldexpf((float)(lane >> 16), -(int)(how >> 4 & 0x3f));
    }
    return 0;
}

// Constants, too.
static bool is_bytes(const struct graph_tensor *t)
{
    return t->type == TENSOR_INT8 && t->quantized;
}

struct unit {
    enum rknn_register reg;
    uint32_t mask, value;
};

static int check_rows(const struct rknn_lowering *l, const uint32_t *v, const struct unit *rows,
                      size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if ((v[rows[i].reg] & rows[i].mask) != rows[i].value)
            return lower_refuse(l, e, "register %s holds 0x%08x, which is not known of bytes",
                                rknn_register_name(rows[i].reg), v[rows[i].reg]);
    return 0;
}

// What a task from memory makes of bytes, of which it may move pairs: themselves.
static int check_copy(const struct rknn_lowering *l, const uint32_t *v, struct error *e)
{
    enum { BYPASS = 1 };
    static const struct unit copied[] = {
        {DPU_BS_CFG, BYPASS, BYPASS},       {DPU_BN_CFG, BYPASS, BYPASS},
        {DPU_EW_CFG, BYPASS, BYPASS},       {DPU_OUT_CVT_SCALE, 0xffff, 1},
        {DPU_OUT_CVT_SHIFT, UINT32_MAX, 0}, {DPU_OUT_CVT_OFFSET, UINT32_MAX, 0},
    };
    return check_rows(l, v, copied, sizeof copied / sizeof *copied, e);
}

// Of RK3588, the only chip of which files are known: kernels of one tap, no padding, nothing is
// added or cut off, and input 0 has its zero point as weights have.
static int check_units(const struct rknn_lowering *l, const uint32_t *v, struct error *e)
{
    static const struct unit known[] = {
        {DPU_DATA_FORMAT, UINT32_MAX, 0},
        {CNA_CONV_CON1, 0x042107ff, 0},
        {CNA_CONV_CON3, 0x03ff3f3f, 9},
        {CNA_PAD_CON0, UINT32_MAX, 0},
        {CNA_WEIGHT_SIZE2, 0x1f1f0000, 0x1010000},
        {CORE_MISC_CFG, 0x270f, 1},
        {CORE_CLIP_TRUNCATE, UINT32_MAX, 0},
        {DPU_BS_CFG, UINT32_MAX, 0x20050},
        {DPU_BS_ALU_CFG, UINT32_MAX, 0},
        {DPU_BS_OW_CFG, 0x080f0003, 0},
        {RDMA_BS_CFG, UINT32_MAX, 0},
        {DPU_BN_CFG, UINT32_MAX, 0x53},
        {DPU_EW_CFG, UINT32_MAX, 0x383},
    };
    int32_t zp = lower_input(l, 0)->zp;
    if (l->chip->generation != CHIP_GEN_RK3588)
        return 0;
    if (check_rows(l, v, known, sizeof known / sizeof *known, e) < 0)
        return STATUS_MODEL_INVALID;
    if ((int16_t)v[DPU_BS_OW_OP] != -zp)
        return lower_refuse(l, e, "register %s holds %d, its first input's zero point is %d",
                            rknn_register_name(DPU_BS_OW_OP), (int16_t)v[DPU_BS_OW_OP], zp);
    return 0;
}

// The factor behind the sums as the scales have it, with the converter's in front of them, and both
// zero points that no table can have: one is the weights', one the output's. Of other chips than
// RK3588 a factor in front of the sums is not known, nor one between them and the output: either
// would leave another one there.
static int check_scales(const struct rknn_lowering *l, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    const struct graph_tensor *a = lower_input(l, 0), *b = lower_input(l, 1);
    const struct graph_tensor *y = lower_output(l, 0);
    struct rknn_walk w;
    const struct rknn_state *s;
    float front = l->out->ex_product.factor;
    if (!lower_has_program(l) || l->out->on_cpu || !b || !is_bytes(a) || !is_bytes(b) ||
        !is_bytes(y))
        return 0;
    double factor = (double)a->scale * (double)b->scale / (double)y->scale;
    factor /= front != 0 ? (double)front : 1;
    rknn_walk_begin(&w, l->regs);
    while ((s = rknn_walk_next(&w)) != NULL) {
        const uint32_t *v = s->value;
        bool memory = v[DPU_FEATURE_MODE_CFG] & FROM_MEMORY;
        if ((memory ? check_copy(l, v, e) : check_units(l, v, e)) < 0)
            return STATUS_MODEL_INVALID;
        if (memory)
            continue;
        double said = ldexp((int16_t)v[DPU_OUT_CVT_SCALE], -(int)(v[DPU_OUT_CVT_SHIFT] & 0x3f));
        float gain = (float)(said / factor), *kept = &l->out->ex_product.gain;
        if (!l->out->ex_product.multiply &&
            (fabs(said - factor) > FAR * factor || (*kept != 0 && *kept != gain)))
            return lower_refuse(l, e, "its registers multiply by %g, its tensors' scales by %g",
                                said, factor);
        *kept = l->out->ex_product.multiply ? 0 : gain;
        if ((int32_t)v[DPU_OUT_CVT_OFFSET] != y->zp)
            return lower_refuse(l, e, "register %s holds %d, its output's zero point is %d",
                                rknn_register_name(DPU_OUT_CVT_OFFSET),
                                (int32_t)v[DPU_OUT_CVT_OFFSET], y->zp);
    }
    return 0;
}

// A third input is added to the product, or multiplied with it (c_type "mul").
int lower_ex_mat_mul(struct rknn_lowering *l, struct error *e)
{
    int r = take_operand_factor(l, e);
    if (r < 0)
        return r;
    char form[16];
    rknn_attr_text(l->node, "c_type", "add", form, sizeof form);
    l->out->ex_product.multiply = strcmp(form, "mul") == 0;
    if (!l->out->ex_product.multiply && strcmp(form, "add") != 0)
        return lower_refuse(l, e, "c_type \"%s\" is not known", form);
    if (check_scales(l, e) < 0)
        return STATUS_MODEL_INVALID;
    bool third = l->out->ex_product.multiply || lower_input(l, 2);
    return third ? lower_inputs(l, 3, e) : 0;
}
