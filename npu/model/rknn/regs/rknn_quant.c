// Bias tables and output conversion of integer convolutions: the chip's fixed-point stages
// (rknn_stages.h) are folded into one real factor and one integer bias per output channel,
//
//      real[o]  = scale[o] * (sum(x * (w + nz[o])) + bias[o])
//      scale[o] = mul[o] / 2^(bs_shift + sum_shift) * bn / 2^bn_shift * out
//      out      = out_scale / 2^out_shift * s_y
//
// with s_y the output's scale, which leads to real numbers. Where a lookup table follows, `out` is
// 1 here and scale[o] leads to the table's input. The chip rounds between stages; these factors do
// not, which can move a result by one unit: so the stages are kept as they are, too (graph_stages).
#include "npu/model/rknn/regs/rknn_quant.h"

#include <math.h>

#include "npu/model/rknn/regs/check/rknn_fit.h"
#include "npu/model/rknn/regs/rknn_expected.h"
#include "npu/model/rknn/regs/rknn_lut.h"

// The chip shifts the sum before it adds the bias: (sum >> s) + bias. Here the shift is part of the
// scale, so the bias is multiplied by 2^s instead, and graph_stages.sum_shift says what sums lose.
static int scale_bias(const struct rknn_stages *st, int32_t *bias, struct error *e)
{
    int64_t scaled = (int64_t)*bias * (INT64_C(1) << st->sum_shift);
    if (scaled < INT32_MIN || scaled > INT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID,
                         "a bias of %d behind sums shifted by %u is too large", *bias,
                         st->sum_shift);
    *bias = (int32_t)scaled;
    return 0;
}

// RK3562's two halves of packed pixels (container 2) have a table each, one behind the other.
static int check_halves(const struct rknn_conv_sources *s, struct bytes b, struct error *e)
{
    uint32_t kind = 0;
    rknn_regs_get(s->regs, CNA_CONV_CON1, &kind);
    if (!rknn_fit_halves(s->regs, kind) || memcmp(b.data, b.data + b.size / 2, b.size / 2) == 0)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its bias table has other numbers for the image's lower half than for the "
                     "upper one");
}

// A weight's zero point is a byte, which the table has with the other sign.
static int check_weight_zero(int16_t nz, struct error *e)
{
    return nz >= -INT8_MAX && nz <= -INT8_MIN
               ? 0
               : error_set(e, STATUS_MODEL_INVALID, "its weights' zero point %d is no int8", -nz);
}

// The table consists of records for G channels (G: chip.bias_group):
//
//      | G x i32 bias | G x i16 nz, if nz_in_table | G x i16 mul, if mul_in_table |
//
// Without a table (no bias, one nz and mul for all channels) biases are 0.
static int read_table(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                      struct graph_conv_quant *q, struct error *e)
{
    size_t group = s->chip->bias_group, record = 4 * group;
    record += st->nz_in_table ? 2 * group : 0;
    record += st->mul_in_table ? 2 * group : 0;
    struct bytes b = s->bias ? s->bias->data : (struct bytes){0};
    bool needed = s->bias || st->nz_in_table || st->mul_in_table;
    if (needed && (!b.data || b.size / record < (q->n + group - 1) / group))
        return error_set(e, STATUS_MODEL_INVALID,
                         "its bias table has %zu bytes, %u channels need %zu", b.size, q->n,
                         (q->n + group - 1) / group * record);
    if (b.data && check_halves(s, b, e) < 0)
        return STATUS_MODEL_INVALID;
    for (uint32_t o = 0; o < q->n; o++) {
        size_t at = o / group * record, k = o % group, nzs = at + 4 * group;
        size_t muls = nzs + (st->nz_in_table ? 2 * group : 0);
        q->bias[o] = s->bias ? (int32_t)read_le32(b.data + at + 4 * k) : 0;
        int16_t nz = st->nz_in_table ? (int16_t)read_le16(b.data + nzs + 2 * k) : st->nz;
        if (!q->nz_in_taps)
            q->nz[o] = nz;
        int16_t m = st->mul_in_table ? (int16_t)read_le16(b.data + muls + 2 * k) : st->mul;
        q->stages->mul[o] = m;
        q->scale[o] = ldexp(m, -(int)(st->bs_shift + st->sum_shift));
        int r = q->nz_in_taps ? 0 : check_weight_zero(nz, e);
        r = r < 0 ? r : scale_bias(st, &q->bias[o], e);
        if (r < 0)
            return r;
    }
    return 0;
}

// The BN unit's factor, for values that are not negative: a LeakyRelu leaves those as they are but
// for the shift.
static double bn_factor(const struct rknn_stages *st)
{
    return st->bn == BN_OFF ? 1 : ldexp(st->bn == BN_ALL ? st->bn_factor : 1, -(int)st->bn_shift);
}

// The slope of a LeakyRelu: the factor over the shifts of negative values, relative to the shifts
// of positive ones, which scale[o] already contains.
static float leaky_alpha(const struct rknn_stages *st)
{
    int negative = (int)(st->bs_shift_negative + st->bn_shift_negative);
    int positive = (int)(st->bs_shift + st->bn_shift);
    return ldexpf(st->bn_factor, positive - negative);
}

// The way out of the lookup table.
static int lut_out(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                   struct graph_lut *lut, struct error *e)
{
    uint32_t offset;
    int r = rknn_regs_need(s->regs, DPU_OUT_CVT_OFFSET, &offset, e);
    if (r < 0)
        return r;
    lut->out_factor = (int32_t)st->out_scale;
    lut->out_shift = st->out_shift;
    lut->out_offset = (int32_t)offset;
    return 0;
}

// The stages as they are: mul of each channel was read before.
static void take_stages(const struct rknn_stages *st, struct graph_stages *to)
{
    uint32_t positive = st->bs_shift + st->sum_shift,
             negative = st->bs_shift_negative + st->sum_shift;
    struct graph_scaling bn = {1, 0}, none = {1, 0};
    struct graph_scaling bn_negative = {st->bn_factor, st->bn_shift_negative};
    if (st->bn != BN_OFF)
        bn = (struct graph_scaling){st->bn == BN_ALL ? st->bn_factor : 1, st->bn_shift};
    *to = (struct graph_stages){.mul = to->mul,
                                .sum_shift = st->sum_shift,
                                .mul_shift = {positive, negative},
                                .bn = {bn, st->bn == BN_OFF ? none : bn_negative},
                                .has_addend = st->has_addend,
                                .addend_offset = st->addend_offset,
                                .addend = {st->addend_factor, st->addend_shift},
                                .out = {(int32_t)st->out_scale, st->out_shift},
                                .zp = st->out_offset};
    memcpy(to->bounds, st->bounds, sizeof to->bounds);
    memcpy(to->sum_bounds, st->sum_bounds, sizeof to->sum_bounds);
}

// Room for the parameters of p->o channels; NULL: no memory. Depthwise weights with a zero point
// per tap have as many nz as weights.
static struct graph_conv_quant *quant_new(struct pool *pool, const struct rknn_packing *p)
{
    bool in_taps = p->kind == PACKED_TAP_PAIRS || p->kind == PACKED_TAP_SINGLE;
    size_t n_nz = in_taps ? (size_t)p->o * p->kh * p->kw : p->o;
    struct graph_conv_quant *q = pool_alloc(pool, 1, sizeof *q);
    struct graph_stages *stages = pool_alloc(pool, 1, sizeof *stages);
    if (!q || !stages)
        return NULL;
    stages->mul = pool_alloc(pool, p->o, sizeof *stages->mul);
    *q = (struct graph_conv_quant){.n = p->o,
                                   .scale = pool_alloc(pool, p->o, sizeof *q->scale),
                                   .bias = pool_alloc(pool, p->o, sizeof *q->bias),
                                   .nz = pool_alloc(pool, n_nz, sizeof *q->nz),
                                   .nz_in_taps = in_taps,
                                   .bias_holds_zp = true,
                                   .stages = stages};
    return q->scale && q->bias && q->nz && stages->mul ? q : NULL;
}

static bool is_bounded(const int32_t bounds[2])
{
    return bounds[0] > INT32_MIN || bounds[1] < INT32_MAX;
}

// Sums that lose bits are understood where no table follows and no weight has a zero point of its
// own.
static int check_sums(const struct rknn_stages *st, const struct graph_conv_quant *q,
                      const struct graph_lut *lut, struct error *e)
{
    return !st->sum_shift || (!q->nz_in_taps && !lut)
               ? 0
               : error_set(e, STATUS_MODEL_INVALID,
                           "its sums are shifted by %u before a lookup table, or with zero points "
                           "of single weights: that is not understood",
                           st->sum_shift);
}

// Whether all that such sums come to lies far beyond what the output holds, or below a Relu.
static bool is_cut_off(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                       const struct graph_conv_quant *q, uint32_t o, double least)
{
    const double far = 1024;
    int16_t mul = q->stages->mul[o];
    bool below = q->bias[o] < 0 && st->bounds[0] == 0 && mul >= 0;
    return !st->has_addend && st->bn != BN_NEGATIVES &&
           (below || !mul || fabs(least * q->scale[o]) > far * (double)s->output->scale);
}

// Sums with their biases stay within 32 bits, where chips saturate and kernels need not. Channels
// that are always cut off, which converters give biases near the ends, get one that is nearer to 0.
static int keep_from_ends(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                          struct graph_conv_quant *q, const struct graph_lut *lut, struct error *e)
{
    const int64_t most = INT64_C(1) << 29, product = 1 << 15; // of bytes, and of their zero points
    int64_t taps = (int64_t)s->packing->i * s->packing->kh * s->packing->kw;
    int64_t sums = taps < most / product ? taps * product : most, end = INT32_MAX - sums;
    for (uint32_t o = 0; o < q->n; o++) {
        if (q->bias[o] <= end && q->bias[o] >= -end)
            continue;
        if (lut || !is_cut_off(s, st, q, o, (double)(end - sums)))
            return error_set(e, STATUS_MODEL_INVALID,
                             "a bias of %d with %lld products: sums may have more than 32 bits",
                             q->bias[o], (long long)taps);
        q->bias[o] = (int32_t)(q->bias[o] < 0 ? -end : end);
    }
    return 0;
}

// The table's input is only known if the BN unit multiplies on the way to it.
int rknn_conv_quant(const struct rknn_conv_sources *s, struct pool *pool, struct graph_lut *lut,
                    float *alpha, struct graph_conv_quant **ret, struct error *e)
{
    struct rknn_stages st;
    struct graph_conv_quant *q = quant_new(pool, s->packing);
    if (!q)
        return error_no_memory(e, "a bias table", 4 * (size_t)s->packing->o);
    int r = rknn_stages_read(s, &st, e);
    if (r == 0)
        r = read_table(s, &st, q, e);
    if (r == 0 && lut && st.bn != BN_ALL)
        r = error_set(e, STATUS_MODEL_INVALID,
                      "what leads into its lookup table is bypassed, so its scale is not known");
    if (r == 0 && lut)
        r = lut_out(s, &st, lut, e);
    if (r == 0 && lut && (is_bounded(st.bounds) || rknn_lut_is_cut(lut, st.sum_bounds)))
        r = error_set(e, STATUS_MODEL_INVALID,
                      "bounds in front of its lookup table, or behind it, are not known");
    if (r == 0)
        r = check_sums(&st, q, lut, e);
    if (r == 0)
        r = rknn_expected(s, &st, lut, e);
    if (r < 0)
        return r;
    take_stages(&st, q->stages);
    if (q->nz_in_taps)
        rknn_unpack_tap_nz(s->packing, s->weight->data.data, q->nz);
    double out = ldexp(st.out_scale, -(int)st.out_shift);
    for (uint32_t o = 0; o < q->n; o++)
        q->scale[o] *= bn_factor(&st) * (lut ? 1 : out * (double)s->output->scale);
    if (alpha)
        *alpha = leaky_alpha(&st);
    *ret = q;
    return keep_from_ends(s, &st, q, lut, e);
}
