// Normalizations of .rknn files.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"

#define FACTOR_ERROR 1e-3 // of a factor that registers hold in 15 bits
#define LENGTH_LEAST 1e-6 // below it no length is: added to it or the least of it, all the same

// Whether all elements of a 16- or 32-bit constant are within these bounds.
static bool all_within(const struct graph_tensor *t, int32_t low, int32_t high)
{
    size_t size = tensor_type_size(t->type);
    if (!t->constant || t->unpack || (size != 2 && size != 4))
        return false;
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const uint8_t *p = t->data.data + i * size;
        int32_t v = size == 2 ? (int16_t)read_le16(p) : (int32_t)read_le32(p);
        if (v < low || v > high)
            return false;
    }
    return true;
}

static bool all_are(const struct graph_tensor *t, int32_t value)
{
    return all_within(t, value, value);
}

// The node's registers hold the factor s_x * s_scale / s_y in 15 bits. If they disagree with the
// tensors' scales, the units were not understood.
static int check_norm_factor(const struct rknn_lowering *l, struct error *e)
{
    uint32_t scale, shift;
    if (!rknn_regs_get(l->regs, DPU_OUT_CVT_SCALE, &scale) ||
        !rknn_regs_get(l->regs, DPU_OUT_CVT_SHIFT, &shift))
        return 0;
    double said = ldexp(scale & 0xffff, -(int)(shift & 0x3f));
    double known = (double)lower_input(l, 0)->scale * (double)lower_input(l, 1)->scale /
                   (double)lower_output(l, 0)->scale;
    if (fabs(said - known) > FACTOR_ERROR * known)
        return lower_refuse(l, e, "its registers multiply by %g where its scales come to %g", said,
                            known);
    return 0;
}

// RK3576, RV1126B: what bounds the sums, but for BN's lower bound, which is a Relu.
static bool is_bounded_by_relu_only(const struct rknn_lowering *l)
{
    static const enum rknn_register low[] = {DPU_BS_LOW_0, DPU_BS_LOW_1, DPU_EW_LOW_0,
                                             DPU_EW_LOW_1};
    static const enum rknn_register high[] = {DPU_BS_HIGH_0, DPU_BS_HIGH_1, DPU_BN_HIGH_0,
                                              DPU_BN_HIGH_1, DPU_EW_HIGH_0, DPU_EW_HIGH_1};
    uint32_t value = 0, relu = strcmp(l->suffix, "Relu") == 0 ? 0 : 0x80000000;
    bool same = rknn_regs_get(l->regs, DPU_BN_LOW_0, &value) && value == relu;
    same = same && rknn_regs_get(l->regs, DPU_BN_LOW_1, &value) && value == relu;
    for (size_t i = 0; i < sizeof low / sizeof *low; i++)
        same = same && rknn_regs_get(l->regs, low[i], &value) && value == 0x80000000;
    for (size_t i = 0; i < sizeof high / sizeof *high; i++)
        same = same && rknn_regs_get(l->regs, high[i], &value) && value == INT32_MAX;
    return same;
}

// BS multiplies each channel by its scale, BN adds its bias: nothing else may be set. The Relu of
// RK3588, RK3566 and RK3568 is a bit of BN_CFG.
static bool only_scales_and_adds(const struct rknn_lowering *l)
{
    static const struct {
        enum chip_generation generation;
        uint32_t bs, mul, bn, relu;
    } forms[] = {{CHIP_GEN_RK3588, 0x42, 1, 0x20110, 0x40},
                 {CHIP_GEN_RK3566, 0x42, 1, 0x118, 0x40},
                 {CHIP_GEN_RK3576, 0x52, 2, 0x924, 0}};
    uint32_t bs = 0, mul = 0, bn = 0, format = 0;
    rknn_regs_get(l->regs, DPU_BS_CFG, &bs);
    rknn_regs_get(l->regs, DPU_BS_MUL_CFG, &mul);
    rknn_regs_get(l->regs, DPU_BN_CFG, &bn);
    rknn_regs_get(l->regs, DPU_DATA_FORMAT, &format);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (l->chip->generation == forms[i].generation)
            return bs == forms[i].bs && mul == forms[i].mul &&
                   (bn & ~forms[i].relu) == forms[i].bn && format == 0 &&
                   (forms[i].relu || is_bounded_by_relu_only(l));
    return false;
}

// Where nothing but scale, bias and a Relu is between input and output, the factor is exact.
static void take_norm_factor(struct rknn_lowering *l)
{
    uint32_t scale = 0, shift = 0, offset = 0;
    rknn_regs_get(l->regs, DPU_OUT_CVT_SCALE, &scale);
    rknn_regs_get(l->regs, DPU_OUT_CVT_SHIFT, &shift);
    rknn_regs_get(l->regs, DPU_OUT_CVT_OFFSET, &offset);
    if (only_scales_and_adds(l) && shift >> 6 == 0 && (int32_t)offset == lower_output(l, 0)->zp)
        l->out->norm.out = (struct graph_scaling){(int32_t)(scale & 0x7fff), shift};
}

// Scale int16 with a scale of its own, bias int32 without, and neither mean nor variance left.
static int check_integer_norm(struct rknn_lowering *l, struct error *e)
{
    const int32_t product = 1 << 22, end = INT32_MAX - product; // of a byte and a scale
    const struct graph_tensor *x = lower_input(l, 0), *scale = lower_input(l, 1);
    const struct graph_tensor *y = lower_output(l, 0);
    bool known = x->type == TENSOR_INT8 && x->quantized && y->type == TENSOR_INT8 && y->quantized &&
                 scale->type == TENSOR_INT16 && scale->quantized && scale->zp == 0 &&
                 !lower_input(l, 2)->quantized && lower_input(l, 2)->type == TENSOR_INT32;
    if (!known || !all_are(lower_input(l, 3), 0) || !all_are(lower_input(l, 4), 1))
        return lower_refuse(l, e, "in what units its integers are is not known");
    if (!all_within(lower_input(l, 2), -end, end))
        return lower_refuse(l, e, "with its bias sums may have more than 32 bits");
    l->out->norm.integer = true;
    take_norm_factor(l);
    if (lower_has_program(l) && !l->out->on_cpu && !l->out->norm.out.factor)
        return lower_refuse(l, e, "how its registers scale and add is not known");
    return check_norm_factor(l, e);
}

// RK3588, the only chip of which files are known: BS multiplies, BN adds and cuts off below 0 where
// the node has a Relu, and nothing else is on.
static int check_real_units(const struct rknn_lowering *l, struct error *e)
{
    uint32_t relu = strcmp(l->suffix, "Relu") == 0 ? 0 : 0x40;
    const struct {
        enum rknn_register reg;
        uint32_t mask, value;
    } rows[] = {
        {DPU_BS_CFG, UINT32_MAX, 0x42},     {DPU_BS_MUL_CFG, UINT32_MAX, 1},
        {RDMA_BS_CFG, UINT32_MAX, 8},       {DPU_BN_CFG, UINT32_MAX, 0x20110 | relu},
        {RDMA_BN_CFG, UINT32_MAX, 2},       {DPU_EW_CFG, UINT32_MAX, 0x383},
        {DPU_OUT_CVT_SCALE, 0xffff, 1},     {DPU_OUT_CVT_OFFSET, UINT32_MAX, 0},
        {DPU_OUT_CVT_SHIFT, UINT32_MAX, 0},
    };
    uint32_t value;
    if (l->chip->generation != CHIP_GEN_RK3588)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rknn_regs_get(l->regs, rows[i].reg, &value) &&
            ((value & rows[i].mask) != rows[i].value ||
             rknn_regs_varies(l->regs, rows[i].reg) & rows[i].mask))
            return lower_refuse(l, e,
                                "register %s (0x%04x) holds 0x%08x: how it scales and adds "
                                "is not known",
                                rknn_register_name(rows[i].reg),
                                rknn_register_at(l->chip, rows[i].reg), value);
    return 0;
}

// The NPU's units scale and add: the converter has made mean and variance part of both, and says 0
// and 1.
static int check_real_norm(const struct rknn_lowering *l, struct error *e)
{
    enum { ONE_HALF_PRECISION = 0x3c00, ONE = 0x3f800000 };
    const struct graph_tensor *mean = lower_input(l, 3), *variance = lower_input(l, 4);
    bool wide = variance->type == TENSOR_FLOAT32;
    if (l->out->on_cpu || !lower_has_program(l) ||
        (all_are(mean, 0) && all_are(variance, wide ? ONE : ONE_HALF_PRECISION)))
        return l->out->on_cpu || !lower_has_program(l) ? 0 : check_real_units(l, e);
    return lower_refuse(l, e, "its mean and variance are not 0 and 1, as its registers have it");
}

// Inputs: x, scale, bias, mean, variance; all float, or all integers.
int lower_norm(struct rknn_lowering *l, struct error *e)
{
    l->out->norm.epsilon = (float)rknn_attr_float(l->node, "epsilon", 1e-5);
    for (uint32_t i = 1; i < 5; i++) {
        const struct graph_tensor *t = lower_input(l, i);
        bool real = t->type == TENSOR_FLOAT32 || t->type == TENSOR_FLOAT16;
        if (!real)
            return check_integer_norm(l, e) < 0 ? STATUS_MODEL_INVALID
                                                : lower_posts(l, l->suffix, -1, e);
    }
    return check_real_norm(l, e) < 0 ? STATUS_MODEL_INVALID : lower_posts(l, l->suffix, -1, e);
}

// Of channels-last images, the normalized dimensions are not contiguous in memory: the reference
// operator does those.
int lower_layer_norm(struct rknn_lowering *l, struct error *e)
{
    int r = lower_axis(l, -1, e);
    if (r < 0)
        return r;
    uint32_t n = l->n_inputs < 3 ? l->n_inputs : 3;
    float epsilon = (float)rknn_attr_float(l->node, "epsilon", 1e-5);
    if (!lower_input(l, 0)->channels_last) {
        l->out->n_inputs = n;
        l->out->layer_norm.epsilon = epsilon;
        return 0;
    }
    r = lower_emit_ref(l, REF_OP_LAYER_NORM, n, (int64_t[]){l->out->axis}, 1, e);
    l->out->ref.reals[0] = epsilon;
    return r;
}

// Files call it by either name.
static float ex_norm_epsilon(const struct rknn_node *n)
{
    return (float)rknn_attr_float(n, "eps", rknn_attr_float(n, "epsilon", 1e-5));
}

// The vendor's layer normalization: over the channels of each pixel (axes 1), or over the whole
// image (axes 1 to 3). "l2" makes the length 1; how a larger epsilon enters there is not known.
int lower_ex_norm(struct rknn_lowering *l, struct error *e)
{
    enum { MODE_LAYER, MODE_MEAN_VAR, MODE_RMS, MODE_L2 };
    static const char *const modes[] = {"layer", "mean_var", "rms", "l2"};
    int64_t axes[GRAPH_MAX_DIMS] = {1};
    uint32_t mode, n = rknn_attr_ints(l->node, "axes", axes, GRAPH_MAX_DIMS);
    float epsilon = ex_norm_epsilon(l->node);
    if (lower_pick(l, "mode", "layer", modes, 4, &mode, e) < 0)
        return STATUS_MODEL_INVALID;
    bool pixel = n < 2 && axes[0] == 1;
    if (!pixel && !(n == 3 && axes[0] == 1 && axes[1] == 2 && axes[2] == 3))
        return lower_refuse(l, e, "its axes are neither 1 nor 1, 2, 3");
    if (mode == MODE_L2 && (l->n_inputs > 1 || !(epsilon >= 0 && (double)epsilon <= LENGTH_LEAST)))
        return lower_refuse(l, e, "mode \"l2\" with %u inputs and epsilon %g is not known",
                            l->n_inputs, (double)epsilon);
    l->out->n_inputs = l->n_inputs < 3 ? l->n_inputs : 3;
    l->out->axis = 1;
    l->out->layer_norm = (struct graph_layer_norm){
        .epsilon = epsilon,
        .image = pixel ? NORM_PIXELS : NORM_IMAGES,
        .rms = mode == MODE_RMS || mode == MODE_L2,
        .sum = mode == MODE_L2,
    };
    return 0;
}

int lower_lrn(struct rknn_lowering *l, struct error *e)
{
    enum { MAX_SIZE = 65535 };
    int64_t size = rknn_attr_int(l->node, "size", 0);
    if (size < 1 || size > MAX_SIZE)
        return lower_refuse(l, e, "size %lld is out of range", (long long)size);
    int r = lower_emit_ref(l, REF_OP_LRN, 1, &size, 1, e);
    l->out->ref.reals[0] = (float)rknn_attr_float(l->node, "alpha", 1e-4);
    l->out->ref.reals[1] = (float)rknn_attr_float(l->node, "beta", 0.75);
    l->out->ref.reals[2] = (float)rknn_attr_float(l->node, "bias", 1);
    return r;
}

int lower_instance_norm(struct rknn_lowering *l, struct error *e)
{
    int r = lower_emit_ref(l, REF_OP_INSTANCE_NORM, 3, NULL, 0, e);
    if (r == 0)
        l->out->ref.reals[0] = (float)rknn_attr_float(l->node, "epsilon", 1e-5);
    return r;
}
