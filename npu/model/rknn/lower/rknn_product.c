// Products of two computed tensors (exMatMul), which the NPU makes as convolutions: input 0 becomes
// the weights, input 1 is the image.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"

// What a factor may be off from the scales: it has 15 bits, the converter's seven.
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

// The factor behind the sums as the scales have it, with the converter's in front of them, and both
// zero points that no table can have: one is the weights', one the output's.
static int check_scales(const struct rknn_lowering *l, struct error *e)
{
    enum { FROM_MEMORY = 1, OWN_ZERO = 3, BYTES = 0, PAIRS = 0x24000001 }; // pairs are moved
    const struct graph_tensor *a = lower_input(l, 0), *b = lower_input(l, 1);
    const struct graph_tensor *y = lower_output(l, 0);
    struct rknn_walk w;
    const struct rknn_state *s;
    float front = l->out->ex_product.factor;
    if (!lower_has_program(l) || l->out->on_cpu || l->chip->generation != CHIP_GEN_RK3588 || !b ||
        !is_bytes(a) || !is_bytes(b) || !is_bytes(y))
        return 0;
    double factor = (double)a->scale * (double)b->scale / (double)y->scale;
    factor /= front != 0 ? (double)front : 1;
    rknn_walk_begin(&w, l->regs);
    while ((s = rknn_walk_next(&w)) != NULL) {
        const uint32_t *v = s->value;
        bool memory = v[DPU_FEATURE_MODE_CFG] & FROM_MEMORY;
        if (v[DPU_DATA_FORMAT] != BYTES && !(memory && v[DPU_DATA_FORMAT] == PAIRS))
            return lower_refuse(l, e, "register %s holds 0x%08x, which is not known of bytes",
                                rknn_register_name(DPU_DATA_FORMAT), v[DPU_DATA_FORMAT]);
        if (memory)
            continue;
        double said = ldexp((int16_t)v[DPU_OUT_CVT_SCALE], -(int)(v[DPU_OUT_CVT_SHIFT] & 0x3f));
        if (!l->out->ex_product.multiply && fabs(said - factor) > FAR * factor)
            return lower_refuse(l, e, "its registers multiply by %g, its tensors' scales by %g",
                                said, factor);
        if ((int32_t)v[DPU_OUT_CVT_OFFSET] != y->zp)
            return lower_refuse(l, e, "register %s holds %d, its output's zero point is %d",
                                rknn_register_name(DPU_OUT_CVT_OFFSET),
                                (int32_t)v[DPU_OUT_CVT_OFFSET], y->zp);
        if (!(v[DPU_BS_OW_CFG] & OWN_ZERO) && (int16_t)v[DPU_BS_OW_OP] != -a->zp)
            return lower_refuse(l, e, "register %s holds %d, its first input's zero point is %d",
                                rknn_register_name(DPU_BS_OW_OP), (int16_t)v[DPU_BS_OW_OP], a->zp);
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
