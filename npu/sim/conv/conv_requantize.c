// From the sums of an integer convolution to int8, in units of the output. All that is known of the
// rounding is here.
//
//   v      = multiplier[o] * (sum + bias[o] + nz[o] * window sum)      multiplier = scale / y_scale
//   v     += (addend - addend_zp) * (addend scale / y_scale)
//   stored = round(v + zp) to nearest, ties to the even stored value, from low + zp to high + zp
//
// The sum is 32 bits that wrap. The chips' rounding is that of the exact real number; a float would
// now and then move one over a tie, and one such unit in an early layer becomes many in a deep net.
// So v is computed twice in floats, with the multiplier rounded down and rounded up (or an addend
// moved down and up by the largest error, requant_bound_addend()): the exact v lies between, and
// where both give the same int8, so does it. The few others are computed again in doubles.
// REQUANT_FLOAT32 is ONNX Runtime's: one float product, rounded to nearest, ties to even, before zp
// is added.
//
// Rounding costs one addition: a float near 1.5 * 2^23 has units of 1, so adding that number (and
// zp) to v leaves round(v + zp) in the lowest bits of the sum, by the FPU's own ties to even.
// Positive floats are ordered as their bits are, and negative ones are negative integers, so
// clamping is an integer min and max on the bits, and "the same int8" is "the same bits".
//
//   v + 0x1.8p23:   0 10010110 1…0 | round(v) in the lowest byte
//
// Compiled without contracted products, so that each rounding is where the source has it.
//
// Tests: test_sim_conv on every instruction set: against long doubles, a third of the scales powers
// of two, which make ties.
#include "npu/sim/conv/conv_requantize.h"

#include <math.h>

// 1.5 * 2^52 and 1.5 * 2^23: added to a double below 2^51, or to a float below 2^22, they leave the
// nearest integer (ties to even) in the lowest bits.
#define TO_INTEGER       6755399441055744.0
#define TO_INTEGER_FLOAT 12582912.0f

#define MAX_EXACT (1 << 24)

// ---- preparation ----

static bool requant_is_clip(const struct graph_post *post)
{
    return post->kind == POST_RELU || post->kind == POST_CLIP;
}

static bool requant_take_addend(const struct step *s, struct conv_requant *f,
                                const struct graph_post *post, double unit)
{
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    f->addend = post->operand;
    f->addend_zp = t->zp;
    f->addend_multiplier = (double)t->scale / unit;
    return t->type == TENSOR_INT8 && t->quantized;
}

// Takes the activations, if they come in the order LeakyRelu, Add, bounds. False: they do not.
static bool requant_take_posts(const struct step *s, struct conv_requant *f, double unit)
{
    const struct graph_post *post = s->node->post, *end = post + s->node->n_post;
    bool floats = s->node->quant->in_output_units, fits = true; // ONNX Runtime has bounds only
    if (post < end && !floats && post->kind == POST_LEAKY_RELU)
        f->alpha = (double)post++->alpha;
    if (post < end && !floats && post->kind == POST_ADD)
        fits = requant_take_addend(s, f, post++, unit);
    for (; post < end && requant_is_clip(post); post++) {
        bool relu = post->kind == POST_RELU;
        f->low = fmax(f->low, relu ? 0 : (double)post->alpha / unit);
        f->high = fmin(f->high, relu ? INFINITY : (double)post->beta / unit);
    }
    f->high = fmax(f->high, -128 - f->form.zp);
    return fits && post == end;
}

// Bounds are rounded as values are: then clamping after the rounding is clamping before it.
static void requant_choose_kind(const struct step *s, struct conv_requant *f)
{
    int32_t odd = f->form.odd;
    f->low = rint(f->low - odd) + odd;
    f->high = rint(f->high - odd) + odd;
    f->kind = s->node->quant->in_output_units ? REQUANT_FLOAT32
              : f->addend >= 0                ? REQUANT_ADD
              : f->alpha != 1                 ? REQUANT_LEAKY
                                              : REQUANT_PLAIN;
}

// The nearest floats that are not above, and not below a number.
static void requant_bracket(double v, float *low, float *high)
{
    float near = (float)v;
    *low = (double)near > v ? nextafterf(near, -INFINITY) : near;
    *high = (double)near < v ? nextafterf(near, INFINITY) : near;
}

static bool requant_take_multiplier(struct step *s, struct requant_multiplier *u, size_t n,
                                    double factor)
{
    const struct graph_conv_quant *q = s->node->quant;
    u->exact = step_alloc(s, n + CONV_LANES, sizeof *u->exact);
    u->nearest = step_alloc(s, n + CONV_LANES, sizeof *u->nearest);
    u->low = step_alloc(s, n + CONV_LANES, sizeof *u->low);
    u->high = step_alloc(s, n + CONV_LANES, sizeof *u->high);
    if (!u->exact || !u->nearest || !u->low || !u->high)
        return false;
    for (size_t i = 0; i < n + CONV_LANES; i++) {
        u->exact[i] = q->scale[i % n] * factor;
        u->nearest[i] = (float)u->exact[i];
        requant_bracket(u->exact[i], &u->low[i], &u->high[i]);
    }
    return true;
}

// Sums below 2^24 are exact as floats; whether what larger ones give is beyond all bounds anyway.
static bool requant_fits_floats(const struct conv *c)
{
    const struct conv_requant *f = &c->requant;
    double max = 257 + 256 * f->addend_multiplier;
    if (c->max_sum < MAX_EXACT)
        return true;
    for (size_t i = 0; i < c->oc; i++) {
        double positive = fabs(f->positive.exact[i]), negative = fabs(f->negative.exact[i]);
        if (positive * MAX_EXACT < max || (negative > 0 && negative * MAX_EXACT < max))
            return false;
    }
    return true;
}

int conv_requantize_prepare(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct conv_requant *f = &c->requant;
    double unit = s->node->quant->in_output_units ? 1 : (double)y->scale;
    *f = (struct conv_requant){.alpha = 1, .addend = -1, .form = element_form(y)};
    f->low = -128 - f->form.zp;
    f->high = 127 - f->form.zp;
    if (y->type != TENSOR_INT8 || !y->quantized || !requant_take_posts(s, f, unit))
        return 0;
    requant_choose_kind(s, f);
    if (!requant_take_multiplier(s, &f->positive, c->oc, 1 / unit) ||
        !requant_take_multiplier(s, &f->negative, c->oc, f->alpha / unit))
        return error_no_memory(e, "scales", c->oc * sizeof(double));
    f->vnni = dnn_has_vnni();
    f->in_doubles = f->kind != REQUANT_FLOAT32 && !requant_fits_floats(c);
    return 0;
}

// ---- running ----

// The largest error of v with an addend. Where the result is within bounds, |v| is at most 257
// units and the product at most as much as the addend more (256 multipliers). Each rounding is off
// by 2^-24 of its result at most: of the multipliers of the sum and of the addend, of the products
// (that with the zero point too), and of the sums.
static void requant_bound_addend(struct requant_job *t)
{
    float multiplier = (float)t->addend_multiplier;
    float error = 0x1p-24f * (520 + 1040 * multiplier);
    t->addend_nearest = multiplier;
    t->addend_low = (float)-t->addend_zp * multiplier - error;
    t->addend_high = (float)-t->addend_zp * multiplier + error;
}

struct requant_job conv_requantize_begin(const struct step *s, const struct conv *c,
                                         const struct run *r)
{
    const struct conv_requant *f = &c->requant;
    size_t groups = c->nz ? c->window.groups : 1;
    int32_t zp = f->form.zp, zp_after = f->kind == REQUANT_FLOAT32 ? zp : 0, before = zp - zp_after;
    struct requant_job t = {.kind = f->kind,
                            .in_doubles = f->in_doubles,
                            .groups = groups,
                            .channels = c->oc / groups,
                            .bias = c->bias,
                            .nz = c->nz,
                            .positive = f->positive,
                            .negative = f->negative,
                            .dst = run_output(s, r, 0),
                            .to_stored = TO_INTEGER + zp,
                            .low = TO_INTEGER + zp + f->low,
                            .high = TO_INTEGER + zp + f->high,
                            .addend_multiplier = f->addend_multiplier,
                            .float_to_stored = TO_INTEGER_FLOAT + (float)before,
                            .float_low = TO_INTEGER_FLOAT + (float)(before + f->low),
                            .float_high = TO_INTEGER_FLOAT + (float)(before + f->high),
                            .addend_zp = f->addend_zp,
                            .zp_after = zp_after};
    if (f->kind == REQUANT_ADD)
        t.addend = run_tensor(r, (uint32_t)f->addend);
    requant_bound_addend(&t);
    return t;
}

// Few channels: several pixels, as many as fill a vector, are taken for one with more channels.
// What is left of them is done as it is.
static void requant_run(struct requant_job *t, bool vnni)
{
    size_t groups_at_once =
        t->nz || t->groups > 1 || CONV_LANES % t->channels ? 1 : CONV_LANES / t->channels;
    struct requant_job many = *t;
    many.n /= groups_at_once;
    many.channels *= groups_at_once;
    size_t done = many.n * many.channels;
    if (vnni && many.channels >= CONV_LANES)
        conv_requantize_avx512(&many);
    else
        conv_requantize_any(&many);
    t->n -= many.n * groups_at_once;
    t->sums += done;
    t->dst += done;
    t->addend = t->addend ? t->addend + done : NULL;
    if (t->n)
        conv_requantize_any(t);
}

void conv_requantize(const struct step *s, const struct conv *c, struct run *r, const int32_t *sums,
                     size_t first, size_t n_pixels)
{
    struct requant_job t = conv_requantize_begin(s, c, r);
    t.n = n_pixels * t.groups;
    t.sums = sums;
    t.dst += first * c->oc;
    if (t.nz)
        t.window_sums = (const int32_t *)run_scratch(r, c->window_at) + first * t.groups;
    if (t.addend)
        t.addend += first * c->oc;
    requant_run(&t, c->requant.vnni);
}
