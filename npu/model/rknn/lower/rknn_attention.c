// exSDPAttention: softmax(scale * qᵀ k) v for each head (REF_OP_ATTENTION). Of factors it is just
// that. Of int8, RK3588 and RV1106 compute products in integers and the softmax in factors, and go
// to and fro by factors that are in the registers of its tasks:
//
//     queries     (q + offset) * factor / 2^15 (RK3588), (q * factor + offset) / 2^15 (RV1106), as
//     int8:
//                 CNA_CVT_CON; bypassed without zero point
//     sums        int8 * int8, times scale: DPU_BN_MUL_CFG
//     products    as a convolution's outputs; then times an fp16 factor: DPU_BS_MUL_CFG, the first
//     one weights     times an fp16 factor, int8: DPU_BS_MUL_CFG, the second one outputs     int8 *
//     int8, as a convolution's
//
// Every factor follows from the others and the tensors' scales but for three: if they do not fit
// together, the node was not understood.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"
#include "tensor/convert.h"

#define FACTORS      4
#define FACTOR_ERROR 2e-3   // of what is held in factors
#define FACTOR_LEAST 0x4000 // of what registers hold with a shift; less than twice as much
#define QUERY_SHIFT  15

struct found {
    uint32_t n, values[FACTORS];
};

// Every head repeats the values: each counts once. A list that is full says that too many are
// there.
static void add_once(struct found *f, uint32_t value)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->values[i] == value)
            return;
    if (f->n < FACTORS)
        f->values[f->n++] = value;
}

static double fp16_of(uint32_t value)
{
    return (double)convert_fp16_to_float((uint16_t)(value >> 16));
}

static bool of_task(const struct rknn_lowering *l, uint32_t task, enum rknn_register reg,
                    uint32_t *ret)
{
    return rknn_regs_of_task(l->regs, l->f, l->node, task, reg, ret);
}

// What the tasks multiply with: factors, and numbers with a shift, of what comes from products.
struct factors {
    struct found factors, scales, shifts, offsets, sums;
};

static void find_factors(const struct rknn_lowering *l, struct factors *ret)
{
    for (uint32_t t = 0; t < l->node->n_tasks; t++) {
        uint32_t factor, scale, shift, offset = 0, sum;
        if (of_task(l, t, DPU_BS_MUL_CFG, &factor) && factor >> 16)
            add_once(&ret->factors, factor);
        if (!of_task(l, t, DPU_OUT_CVT_SCALE, &scale) ||
            !of_task(l, t, DPU_OUT_CVT_SHIFT, &shift) || scale <= FACTOR_LEAST ||
            scale >= 2 * FACTOR_LEAST)
            continue;
        of_task(l, t, DPU_OUT_CVT_OFFSET, &offset);
        add_once(&ret->scales, scale);
        add_once(&ret->shifts, shift & 0x3f);
        if (of_task(l, t, DPU_BN_MUL_CFG, &sum) && sum >> 16) {
            add_once(&ret->sums, sum);
            add_once(&ret->offsets, offset);
        }
    }
}

// How the queries come to the products: q * factor + more, with what is stored of q.
static bool query_factor(const struct rknn_lowering *l, double *factor, double *more)
{
    int32_t zp = lower_input(l, 0)->zp;
    uint32_t value, offset = 0;
    bool rv1106 = l->chip->generation == CHIP_GEN_RV1106;
    *factor = 1;
    *more = 0;
    for (uint32_t t = 0; t < l->node->n_tasks; t++) {
        if (!of_task(l, t, CNA_CVT_CON1, &value) || value >> 16 <= 1)
            continue;
        of_task(l, t, CNA_CVT_OFFSET, &offset);
        *factor = ldexp(value >> 16, -QUERY_SHIFT);
        double added = rv1106 ? ldexp((int32_t)offset, -QUERY_SHIFT) : (int16_t)value * *factor;
        *more = added + zp * *factor;
        return fabs(*more) <= 0.5 && *factor > 0.25 && *factor <= 1;
    }
    return zp == 0;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= FACTOR_ERROR * fabs(b);
}

// The steps of queries, products and weights, checked against the scales of the tensors. The scale
// is the registers' where the file does not say it.
static bool find_steps(const struct rknn_lowering *l, float *reals)
{
    const struct graph_tensor *q = lower_input(l, 0), *k = lower_input(l, 1),
                              *v = lower_input(l, 2);
    struct factors f = {0};
    double factor, more, said = (double)reals[REF_ATTENTION_SCALE];
    find_factors(l, &f);
    if (f.factors.n != 2 || f.scales.n != 2 || f.shifts.n != 2 || f.sums.n != 1 ||
        f.offsets.n != 1 || !query_factor(l, &factor, &more))
        return false;
    double query = (double)q->scale / factor, step = fp16_of(f.factors.values[0]);
    double to_weight = fp16_of(f.factors.values[1]), out = (double)lower_output(l, 0)->scale;
    double to_product = ldexp(f.scales.values[0], -(int)f.shifts.values[0]);
    double weight = ldexp(f.scales.values[1], -(int)f.shifts.values[1]) * out / (double)v->scale;
    double scale = ldexp(f.sums.values[0] >> 16, -(int)(f.sums.values[0] >> 8 & 0x3f));
    reals[REF_ATTENTION_SCALE] = (float)scale;
    reals[REF_ATTENTION_QUERY] = (float)query;
    reals[REF_ATTENTION_QUERY_MORE] = (float)more;
    reals[REF_ATTENTION_TO_PRODUCT] = (float)to_product;
    reals[REF_ATTENTION_PRODUCT] = (float)step;
    reals[REF_ATTENTION_PRODUCT_ZERO] = (float)(int32_t)f.offsets.values[0];
    reals[REF_ATTENTION_TO_WEIGHT] = (float)to_weight;
    reals[REF_ATTENTION_WEIGHT] = (float)weight;
    return is_near(query * (double)k->scale / step, to_product) && is_near(weight * to_weight, 1) &&
           (said == 0 || is_near(scale, said));
}

int lower_attention(struct rknn_lowering *l, struct error *e)
{
    double scale = rknn_attr_float(l->node, "scale", 0);
    float reals[REF_MAX_REALS] = {[REF_ATTENTION_SCALE] = (float)scale};
    bool integer = true, fp16 = true;
    for (uint32_t i = 0; i < 4; i++) {
        enum tensor_type type = (i < 3 ? lower_input(l, i) : lower_output(l, 0))->type;
        fp16 = fp16 && type == TENSOR_FLOAT16;
        integer = integer && type == TENSOR_INT8;
    }
    if (l->n_inputs != 3)
        return lower_refuse(l, e, "it has %u inputs, three are known", l->n_inputs);
    if (fp16 && !(scale > 0))
        return lower_refuse(l, e, "the file does not say its scale");
    if (!fp16 && (!integer || !find_steps(l, reals)))
        return lower_refuse(l, e, "in what steps its products and weights are held is not known");
    int r = lower_emit_ref(l, REF_OP_ATTENTION, 3, NULL, 0, e);
    memcpy(l->out->ref.reals, reals, sizeof reals);
    return r;
}
