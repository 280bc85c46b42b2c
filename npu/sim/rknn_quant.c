// Bias tables and output conversion of integer convolutions.
#include "npu/sim/rknn_quant.h"

#include <math.h>
#include <stdio.h>

#define MUL_SHIFT 14 // the usual fixed point of multipliers

// Registers of a convolution's task, where 0x4080 is the output conversion, and bits of theirs.
// Source: the technical reference manual of RK3588, chapter of the NPU.
#define DATA_FORMAT         0x4010    // bits 4-9, 10-15: shifts of negative values, bias and below
#define BN_CONFIG           0x4060    // of what comes behind the bias
#define BN_BYPASS           (1u << 0) // nothing is done
#define BN_NO_FACTOR        (1u << 4)
#define FACTOR_OF_NEGATIVES (1u << 5) // only they are multiplied; of 0x4040 as well
#define SHIFT_IN_TABLE      (1u << 1) // of 0x4048

// What a bias table holds besides the biases, and what stands in for the rest.
struct table_form {
    bool has_nz, has_mul;
    int16_t nz, mul;
    uint32_t mul_shift;
};

static int need(const struct rknn_conv_sources *s, uint32_t reg, uint32_t *ret, struct error *e)
{
    if (rknn_regs_get(s->regs, reg, ret))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its register commands do not set 0x%04x, so its scale is not known", reg);
}

static int not_known(uint32_t reg, uint32_t value, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "register 0x%04x holds 0x%08x: what its bias table holds is not known", reg,
                     value);
}

static int not_understood(uint32_t reg, uint32_t value, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "register 0x%04x holds 0x%08x: how it scales its sums is not known", reg,
                     value);
}

static int form_rk3588(const struct rknn_conv_sources *s, struct table_form *form, struct error *e)
{
    uint32_t bypass, multiplier, source, nz;
    if (need(s, 0x4040, &bypass, e) < 0 || need(s, 0x4048, &multiplier, e) < 0 ||
        need(s, 0x4050, &source, e) < 0 || need(s, 0x4054, &nz, e) < 0)
        return STATUS_MODEL_INVALID;
    bool bypassed = bypass >> 4 & 1;
    uint32_t format = 0, shift = bypassed ? 0 : multiplier >> 8 & 0x3f;
    bool says_format = rknn_regs_get(s->regs, DATA_FORMAT, &format);
    if (bypass & FACTOR_OF_NEGATIVES)
        return not_understood(0x4040, bypass, e);
    if (!bypassed && (multiplier & SHIFT_IN_TABLE))
        return not_understood(0x4048, multiplier, e);
    if (says_format && !bypassed && (format >> 4 & 0x3f) != shift)
        return not_understood(DATA_FORMAT, format, e);
    form->has_nz = source & 1;
    form->nz = (int16_t)nz;
    if (bypassed && form->has_nz)
        return not_known(0x4050, source, e);
    form->has_mul = !bypassed && (multiplier & 1);
    form->mul = bypassed ? 1 : (int16_t)(multiplier >> 16);
    form->mul_shift = shift;
    return 0;
}

// One scale for all channels: the zero point lies in a tensor of its own.
static int single_nz(const struct rknn_conv_sources *s, int16_t *ret, struct error *e)
{
    char name[300];
    snprintf(name, sizeof name, "%s_BScfgTensor", s->output->name);
    for (uint32_t i = 0; i < s->file->n_tensors; i++) {
        const struct rknn_tensor *t = &s->file->tensors[i];
        if (t->data.size >= 2 && strcmp(t->name, name) == 0) {
            *ret = (int16_t)read_le16(t->data.data);
            return 0;
        }
    }
    return error_set(e, STATUS_MODEL_INVALID, "tensor %s with its zero point is missing", name);
}

static int form_rk3576(const struct rknn_conv_sources *s, struct table_form *form, struct error *e)
{
    uint32_t source;
    int r = need(s, 0x4050, &source, e);
    if (r < 0)
        return r;
    bool taps = s->packing->kind == PACKED_TAP_PAIRS;
    switch (source >> 16 & 0xf) {
    case 1:
        if (s->packing->depthwise && !taps)
            return not_known(0x4050, source, e);
        *form = (struct table_form){.has_nz = !taps, .has_mul = true, .mul_shift = MUL_SHIFT};
        return 0;
    case 2:
        form->mul = 1;
        return taps ? 0 : single_nz(s, &form->nz, e);
    default:
        return not_known(0x4050, source, e);
    }
}

static int form_rk3562(const struct rknn_conv_sources *s, struct table_form *form, struct error *e)
{
    uint32_t source, multiplier;
    if (need(s, 0x4050, &source, e) < 0 || need(s, 0x4054, &multiplier, e) < 0)
        return STATUS_MODEL_INVALID;
    if (!(source & 1))
        return not_known(0x4050, source, e);
    if (!(multiplier >> 31))
        return not_known(0x4054, multiplier, e);
    *form =
        (struct table_form){.has_nz = true, .has_mul = true, .mul_shift = multiplier >> 16 & 0x3f};
    return 0;
}

static int form_rv1106(const struct rknn_conv_sources *s, struct table_form *form, struct error *e)
{
    uint32_t shift, source;
    if (need(s, 0x4040, &shift, e) < 0 || need(s, 0x4050, &source, e) < 0)
        return STATUS_MODEL_INVALID;
    bool taps = s->packing->kind == PACKED_TAP_SINGLE;
    if (!(source & 1) || s->packing->depthwise != taps)
        return not_known(0x4050, source, e);
    *form = (struct table_form){.has_nz = !taps, .has_mul = true, .mul_shift = shift >> 9 & 0x1f};
    return 0;
}

static int find_form(const struct rknn_conv_sources *s, struct table_form *form, struct error *e)
{
    *form = (struct table_form){0};
    switch (s->chip->bias_rule) {
    case BIAS_RK3588:
        return form_rk3588(s, form, e);
    case BIAS_RK3576:
        return form_rk3576(s, form, e);
    case BIAS_RK3562:
        return form_rk3562(s, form, e);
    default:
        return form_rv1106(s, form, e);
    }
}

// Records of G channels: G i32 biases, then G i16 nz and G i16 mul where the table has them.
static int read_table(const struct rknn_conv_sources *s, const struct table_form *form,
                      struct graph_conv_quant *q, struct error *e)
{
    size_t group = s->chip->bias_group, record = 4 * group;
    record += form->has_nz ? 2 * group : 0;
    record += form->has_mul ? 2 * group : 0;
    struct bytes b = s->bias ? s->bias->data : (struct bytes){0};
    if (b.size / record < (q->n + group - 1) / group && (s->bias || form->has_nz || form->has_mul))
        return error_set(e, STATUS_MODEL_INVALID,
                         "its bias table has %zu bytes, %u channels need %zu", b.size, q->n,
                         (q->n + group - 1) / group * record);
    for (uint32_t o = 0; o < q->n; o++) {
        size_t at = o / group * record, k = o % group, nzs = at + 4 * group;
        size_t muls = nzs + (form->has_nz ? 2 * group : 0);
        q->bias[o] = s->bias ? (int32_t)read_le32(b.data + at + 4 * k) : 0;
        int16_t nz = form->has_nz ? (int16_t)read_le16(b.data + nzs + 2 * k) : form->nz;
        if (!q->nz_in_taps)
            q->nz[o] = nz;
        int16_t m = form->has_mul ? (int16_t)read_le16(b.data + muls + 2 * k) : form->mul;
        q->scale[o] = ldexp(m, -(int)form->mul_shift);
    }
    return 0;
}

static bool fuses_leaky(const struct rknn_node *n)
{
    return strstr(n->op, "LeakyRelu") != NULL;
}

// What the output conversion multiplies by, in stored output steps.
static int output_factor(const struct rknn_conv_sources *s, double *ret, struct error *e)
{
    uint32_t base = s->chip->output_conversion, scale, shift, leaky = 0;
    if (need(s, base + 4, &scale, e) < 0 || need(s, base + 8, &shift, e) < 0)
        return STATUS_MODEL_INVALID;
    if (fuses_leaky(s->node) && need(s, 0x4068, &leaky, e) < 0)
        return STATUS_MODEL_INVALID;
    // A LeakyRelu shifts once more before the conversion, for both signs.
    *ret = ldexp(scale & 0xffff, -(int)(shift & 0x3f) - (int)(leaky >> 8 & 0x3f));
    return 0;
}

// The way into the lookup table, and out of it.
static int lut_factors(const struct rknn_conv_sources *s, struct graph_lut *lut, double *ret_in,
                       struct error *e)
{
    uint32_t bn, offset, below_scale = 0, below_shift = 0, above_scale = 0, above_shift = 0;
    double out;
    if (need(s, 0x4068, &bn, e) < 0 || need(s, s->chip->output_conversion, &offset, e) < 0)
        return STATUS_MODEL_INVALID;
    int r = output_factor(s, &out, e);
    if (r < 0)
        return r;
    // RK3576 has other registers there.
    if (rknn_regs_get(s->regs, 0x4124, &below_shift))
        rknn_regs_get(s->regs, 0x4120, &below_scale);
    if (rknn_regs_get(s->regs, 0x412c, &above_shift))
        rknn_regs_get(s->regs, 0x4128, &above_scale);
    lut->slope_below = ldexpf((int16_t)below_scale, -(int)(below_shift & 0x1f));
    lut->slope_above = ldexpf((int16_t)(above_scale >> 16), -(int)(above_shift >> 5 & 0x1f));
    lut->out_scale = (float)out * s->output->scale;
    lut->out_offset = (float)((int32_t)offset - s->output->zp) * s->output->scale;
    *ret_in = ldexp((int16_t)(bn >> 16), -(int)(bn >> 8 & 0x3f));
    return 0;
}

// A LeakyRelu multiplies negative values there, a lookup table's way in multiplies all, others
// none.
static int check_factor(const struct rknn_conv_sources *s, bool lut, struct error *e)
{
    uint32_t config;
    if (s->chip->output_conversion != 0x4080 || lut || !rknn_regs_get(s->regs, BN_CONFIG, &config))
        return 0;
    bool multiplies = !(config & (BN_BYPASS | BN_NO_FACTOR));
    bool leaky = fuses_leaky(s->node);
    if (multiplies != leaky || (leaky && !(config & FACTOR_OF_NEGATIVES)))
        return not_understood(BN_CONFIG, config, e);
    return 0;
}

// The slope has 14 bits behind the point: negative values are shifted by as much more, or, on
// RV1103 and RV1106, by as much as the others.
static int check_shifts(const struct rknn_conv_sources *s, uint32_t leaky, struct error *e)
{
    uint32_t format;
    if (s->chip->output_conversion != 0x4080 || !rknn_regs_get(s->regs, DATA_FORMAT, &format))
        return 0;
    int more = (int)(format >> 10 & 0x3f) - (int)(leaky >> 8 & 0x3f);
    if (more == 0 || (more == MUL_SHIFT && s->chip->bias_rule == BIAS_RK3588))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "register 0x%04x holds 0x%08x: the slope of its LeakyRelu is not known",
                     DATA_FORMAT, format);
}

int rknn_leaky_alpha(const struct rknn_conv_sources *s, float *ret, struct error *e)
{
    uint32_t leaky;
    int r = need(s, 0x4068, &leaky, e);
    if (r < 0)
        return r;
    *ret = ldexpf((int16_t)(leaky >> 16), -MUL_SHIFT);
    return check_shifts(s, leaky, e);
}

static struct graph_conv_quant *quant_new(struct pool *pool, const struct rknn_packing *p)
{
    bool in_taps = p->kind == PACKED_TAP_PAIRS || p->kind == PACKED_TAP_SINGLE;
    size_t n_nz = in_taps ? (size_t)p->o * p->kh * p->kw : p->o;
    struct graph_conv_quant *q = pool_alloc(pool, 1, sizeof *q);
    if (!q)
        return NULL;
    *q = (struct graph_conv_quant){.n = p->o,
                                   .scale = pool_alloc(pool, p->o, sizeof *q->scale),
                                   .bias = pool_alloc(pool, p->o, sizeof *q->bias),
                                   .nz = pool_alloc(pool, n_nz, sizeof *q->nz),
                                   .nz_in_taps = in_taps,
                                   .bias_holds_zp = true};
    return q->scale && q->bias && q->nz ? q : NULL;
}

int rknn_conv_quant(const struct rknn_conv_sources *s, struct pool *pool, struct graph_lut *lut,
                    struct graph_conv_quant **ret, struct error *e)
{
    struct table_form form;
    struct graph_conv_quant *q = quant_new(pool, s->packing);
    if (!q)
        return error_no_memory(e, "a bias table", 4 * (size_t)s->packing->o);
    double factor;
    int r = find_form(s, &form, e);
    if (r == 0)
        r = check_factor(s, lut, e);
    if (r == 0)
        r = read_table(s, &form, q, e);
    if (r == 0)
        r = lut ? lut_factors(s, lut, &factor, e) : output_factor(s, &factor, e);
    if (r < 0)
        return r;
    if (q->nz_in_taps)
        rknn_unpack_tap_nz(s->packing, s->weight->data.data, q->nz);
    for (uint32_t o = 0; o < q->n; o++)
        q->scale[o] *= lut ? factor : factor * (double)s->output->scale;
    *ret = q;
    return 0;
}
