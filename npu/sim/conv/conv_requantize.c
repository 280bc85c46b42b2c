// From the sums of an integer convolution to int8, counted in steps of the output. All that is
// known of their rounding is here:
//
// The chips store the int8 that is nearest to the real number, ties to the even one. A float would
// now and then move a number over a half, and one such step in an early layer becomes many in a
// deep net. So it is counted twice in floats, once with all roundings up and once down: where both
// give the same int8 it is the right one, and the few others are counted in doubles. ONNX Runtime
// counts in floats, and so does REQUANT_FLOAT32. What counts is compiled without contracted
// products.
#include "npu/sim/conv/conv_requantize.h"

#include <math.h>

// Added to a number below 2^51, or to a float below 2^22, they leave the nearest integer (ties to
// even) in the lowest bits.
#define TO_INTEGER       6755399441055744.0
#define TO_INTEGER_FLOAT 12582912.0f

#define MAX_EXACT (1 << 24)

// ---- preparation ----

static bool requant_is_clip(const struct graph_post *post)
{
    return post->kind == POST_RELU || post->kind == POST_CLIP;
}

static bool requant_take_addend(const struct step *s, struct conv_requant *f,
                                const struct graph_post *post, double step)
{
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    f->addend = post->operand;
    f->addend_zp = t->zp;
    f->addend_multiplier = (double)t->scale / step;
    return t->type == TENSOR_INT8 && t->quantized;
}

// Takes what is done to outputs, as far as it comes in the order of struct conv_requant.
static bool requant_take_posts(const struct step *s, struct conv_requant *f, double step)
{
    const struct graph_post *post = s->node->post, *end = post + s->node->n_post;
    bool floats = s->node->quant->in_output_units, fits = true; // of floats only bounds are known
    if (post < end && !floats && post->kind == POST_LEAKY_RELU)
        f->alpha = (double)post++->alpha;
    if (post < end && !floats && post->kind == POST_ADD)
        fits = requant_take_addend(s, f, post++, step);
    for (; post < end && requant_is_clip(post); post++) {
        bool relu = post->kind == POST_RELU;
        f->low = fmax(f->low, relu ? 0 : (double)post->alpha / step);
        f->high = fmin(f->high, relu ? INFINITY : (double)post->beta / step);
    }
    f->high = fmax(f->high, -128 - f->form.zp);
    return fits && post == end;
}

// Bounds are rounded as what lies beyond them would be.
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

// The floats next to a number, on both sides.
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

// Below 2^24 sums are exact as floats; from there on what they give must lie beyond all bounds.
static bool requant_fits_floats(const struct conv *c)
{
    const struct conv_requant *f = &c->requant;
    double most = 257 + 256 * f->addend_multiplier;
    if (c->max_sum < MAX_EXACT)
        return true;
    for (size_t i = 0; i < c->oc; i++) {
        double unit = fabs(f->positive.exact[i]), below = fabs(f->negative.exact[i]);
        if (unit * MAX_EXACT < most || (below > 0 && below * MAX_EXACT < most))
            return false;
    }
    return true;
}

int conv_requantize_prepare(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct conv_requant *f = &c->requant;
    double step = s->node->quant->in_output_units ? 1 : (double)y->scale;
    *f = (struct conv_requant){.alpha = 1, .addend = -1, .form = element_form(y)};
    f->low = -128 - f->form.zp;
    f->high = 127 - f->form.zp;
    if (y->type != TENSOR_INT8 || !y->quantized || !requant_take_posts(s, f, step))
        return 0;
    requant_choose_kind(s, f);
    if (!requant_take_multiplier(s, &f->positive, c->oc, 1 / step) ||
        !requant_take_multiplier(s, &f->negative, c->oc, f->alpha / step))
        return error_no_memory(e, "scales", c->oc * sizeof(double));
    f->vnni = dnn_has_vnni();
    f->in_doubles = f->kind != REQUANT_FLOAT32 && !requant_fits_floats(c);
    return 0;
}

// ---- running ----

// What lies in bounds (257 steps, and as much as the addend more for the product) is rounded in its
// unit, as a sum and, for what is added, in its step (twice), as the product with the zero point,
// when that is moved, and as a sum: each by 2^-24 of it at most.
static void requant_bound_addend(struct requant_job *t)
{
    float steps = (float)t->addend_multiplier;
    float error = 0x1p-24f * (520 + 1040 * steps);
    t->addend_nearest = steps;
    t->addend_low = (float)-t->addend_zp * steps - error;
    t->addend_high = (float)-t->addend_zp * steps + error;
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

// Few channels: those of several groups, as many as fill the lanes, are taken for those of one.
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
        t.windows = (const int32_t *)run_scratch(r, c->window_at) + first * t.groups;
    if (t.addend)
        t.addend += first * c->oc;
    requant_run(&t, c->requant.vnni);
}
