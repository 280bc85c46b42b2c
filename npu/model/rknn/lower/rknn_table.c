// Activations of real numbers by a table, which are computed by the operator's name: held against
// what the table says. The sum is multiplied by a gain and is where the table is looked up; what
// that gives is multiplied by two factors, on RK3588 in a task of its own:
//
//     table[sum * gain] * factor * factor = activation(sum)
//
// Between its points the activation itself is exacter; on the emulator whole numbers come out of
// it. Where other chips have the gain and the factors was seen in no file: there the table alone
// has to be the activation, for some gain and factor. Of its 1026 numbers two are chosen so.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/rknn_lut.h"
#include "tensor/convert.h"

#define STEP  32   // between two points, of the sum times the gain
#define ERROR 1e-3 // of the activation, beside steps of the table
#define FAR_ERROR                                                                                  \
    2e-2 // beyond the table's ends, where a slope continues it: files' Swish has 0.0174

static double activation_of(const struct graph_post *p, double x)
{
    double a = (double)p->alpha, b = (double)p->beta, hard = fmin(fmax(a * x + b, 0), 1);
    switch (p->kind) {
    case POST_SIGMOID:
        return 1 / (1 + exp(-x));
    case POST_SWISH:
        return x / (1 + exp(-x));
    case POST_TANH:
        return tanh(x);
    case POST_ELU:
        return x < 0 ? a * expm1(x) : x;
    case POST_HARD_SIGMOID:
        return hard;
    case POST_HARD_SWISH:
        return x * hard;
    case POST_GELU:
        return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    case POST_MISH:
        return x * tanh(log1p(exp(x)));
    case POST_SOFTPLUS:
        return log1p(exp(x));
    default:
        return NAN;
    }
}

static bool needs_table(enum graph_post_kind kind)
{
    return kind != POST_RELU && kind != POST_CLIP && kind != POST_LEAKY_RELU && kind != POST_ADD &&
           kind != POST_LUT;
}

// What a task does that multiplies by two factors, and by nothing else.
static bool take_factors(const struct rknn_state *t, double *ret)
{
    enum { MULTIPLIES = 0x42, OFF = 0x383, FLOATS_TO_HALVES = 0x10001 };
    const uint32_t *v = t->value, bs = v[DPU_BS_MUL_CFG], bn = v[DPU_BN_MUL_CFG];
    *ret = (double)convert_fp16_to_float((uint16_t)(bs >> 16)) *
           (double)convert_fp16_to_float((uint16_t)(bn >> 16));
    return v[DPU_BS_CFG] == MULTIPLIES && v[DPU_BN_CFG] == MULTIPLIES && v[DPU_EW_CFG] == OFF &&
           v[DPU_OUT_CVT_SCALE] == FLOATS_TO_HALVES && !v[DPU_OUT_CVT_OFFSET] &&
           !v[DPU_OUT_CVT_SHIFT] && !((bs | bn) & 0xffff);
}

// The factor behind the table, the same in all tasks that have one. False: there is none.
static bool find_factor(const struct rknn_lowering *l, double *ret)
{
    enum { FROM_MEMORY = 1 };
    struct rknn_walk w;
    const struct rknn_state *t;
    double factor;
    *ret = 0;
    rknn_walk_begin(&w, l->regs);
    while ((t = rknn_walk_next(&w)) != NULL) {
        if (!(t->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY))
            continue;
        if (!take_factors(t, &factor) || (*ret > 0 && *ret != factor))
            return false;
        *ret = factor;
    }
    return *ret > 0 && isfinite(*ret);
}

// One of the two tables, of sums of one sign, and far behind it.
static bool is_activation(const struct graph_post *p, const int16_t *points, double sign,
                          const double slope[2], double gain, double factor)
{
    for (int i = 0; i < RKNN_LUT_POINTS; i++) {
        int k = sign < 0 ? RKNN_LUT_POINTS - 1 - i : i; // from the lowest sum on
        double y = activation_of(p, sign * i * STEP / gain);
        if (!(fabs(points[k] * factor - y) <= 2 * factor + ERROR * fmax(1, fabs(y))))
            return false;
    }
    double end = (RKNN_LUT_POINTS - 1) * STEP, last = points[sign < 0 ? 0 : RKNN_LUT_POINTS - 1];
    double far = (last + sign * end * slope[sign > 0]) * factor;
    double y = activation_of(p, sign * 2 * end / gain);
    return fabs(far - y) <= FAR_ERROR * fmax(1, fabs(y));
}

// ---- the gain and the factor that a table itself says ----

// The factor that brings some of the table's points nearest to the activation with this gain, and
// how far they are away then: the squares of the differences, of those of the activation.
static double nearest_factor(const struct graph_post *p, const struct graph_lut *lut, double gain,
                             double *ret_off)
{
    enum { LOOKS = 33 }; // close to each other near 0, where activations bend
    double products = 0, squares = 0, all = 0;
    for (int k = 0, i = 0; k < LOOKS; k++, i = k * k / 2)
        for (int sign = -1; sign <= 1; sign += 2) {
            double y = activation_of(p, sign * i * STEP / gain);
            double t = sign < 0 ? lut->below[RKNN_LUT_POINTS - 1 - i] : lut->above[i];
            products += y * t;
            squares += t * t;
            all += y * y;
        }
    *ret_off = squares > 0 && all > 0 ? 1 - products * products / (squares * all) : 1;
    return squares > 0 ? products / squares : 0;
}

// `gain` NaN: not known. The table has to reach as far as 1 on both sides, where activations bend.
static bool fit_table(const struct graph_post *p, const struct graph_lut *lut, double *gain,
                      double *factor)
{
    const double widest = 512, ratio = 1.05, golden = 0.6180339887498949; // 1.05^128 > 512
    const double end = (RKNN_LUT_POINTS - 1) * STEP;
    double best = 2, off, g = end / widest;
    if (*gain > 0) {
        *factor = nearest_factor(p, lut, *gain, &off);
        return *factor > 0;
    }
    for (int i = 0; i < 128; i++) {
        nearest_factor(p, lut, g, &off);
        if (off < best) {
            best = off;
            *gain = g;
        }
        g *= ratio;
    }
    if (!(*gain > 0))
        return false;
    double low = *gain / ratio, high = *gain * ratio;
    for (int i = 0; i < 39; i++) { // to 1e-9 of it
        double a = high - golden * (high - low), b = low + golden * (high - low), off_b;
        nearest_factor(p, lut, a, &off);
        nearest_factor(p, lut, b, &off_b);
        *(off < off_b ? &high : &low) = off < off_b ? b : a;
        *gain = (low + high) / 2;
    }
    *factor = nearest_factor(p, lut, *gain, &off);
    return *factor > 0 && *gain <= end;
}

static bool is_table(const struct graph_post *p, const struct graph_lut *lut, double gain,
                     double factor)
{
    double slope[2] = {ldexp(lut->slope[0], -(int)lut->slope_shift[0]),
                       ldexp(lut->slope[1], -(int)lut->slope_shift[1])};
    return is_activation(p, lut->below, -1, slope, gain, factor) &&
           is_activation(p, lut->above, 1, slope, gain, factor);
}

bool lower_table_is(const struct graph_post *p, const struct graph_lut *lut, double gain)
{
    double factor;
    return fit_table(p, lut, &gain, &factor) && is_table(p, lut, gain, factor);
}

int lower_check_table(struct rknn_lowering *l, float said, struct error *e)
{
    const struct graph_post *p = l->out->post;
    struct graph_lut *lut = NULL;
    double factor, gain = (double)said;
    bool table = false, known = l->chip->generation == CHIP_GEN_RK3588;
    for (uint32_t i = 0; i < l->out->n_post; i++)
        table = table || needs_table(p[i].kind);
    if (!table || l->out->on_cpu || !lower_has_program(l))
        return 0;
    if (rknn_lut_new(l->regs, l->f, l->node, &l->g->pool, &lut, e) < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    bool right = needs_table(p[0].kind) && gain > 0 && find_factor(l, &factor)
                     ? is_table(p, lut, gain, factor)
                     : needs_table(p[0].kind) && !known && lower_table_is(p, lut, gain);
    return right ? 0
                 : lower_refuse(l, e, "its lookup table is not known to hold what its name says");
}
