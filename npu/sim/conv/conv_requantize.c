// From the sums of an integer convolution to int8, by the stages of the chip's output unit. All
// that is known of the rounding is here.
//
//   sum    = sum + bias[o] + nz[o] * window sum                 32 bits that wrap
//   v      = round(sum * mul[o] / 2^shift)                      a shift for negative products
//   w      = round(v * bn), within bounds                       LeakyRelu: of negative v alone
//   x      = w + round((addend + offset) * factor), within bounds
//   stored = round(x * out + zp), saturated
//
// Every round() is to nearest, ties to even; v, w and x saturate at 32 bits. One rounding instead
// of all of them would be off by one in a value of a thousand, and one such unit in an early layer
// becomes many in a deep net.
//
// Rounding costs one addition: a float near 1.5 * 2^23 has units of 1, so a fused multiply-add of
// that number (and zp) to a product leaves its nearest integer in the lowest bits, by the FPU's own
// ties to even; the product itself is not rounded. It is exact where its factors are floats: sums
// below 2^24, factors of 16 bits over a power of two. Larger ones than 2^22 come out somewhere
// beyond 2^22, which must lie beyond all bounds. Where any of that cannot be promised
// (requant_find_open()), the same is done in doubles, whose 2^51 nothing exceeds. Where a few
// channels alone are the reason, as those are whose weights are next to nothing, these are done
// once more, in doubles.
// Positive floats are ordered as their bits are, and negative ones are negative integers, so
// clamping is an integer min and max on the bits.
//
//   v + 0x1.8p23:   0 10010110 1…0 | round(v) in the lowest byte
//
// A LeakyRelu's sums that are not negative keep all bits of their products, more than a float has.
// So the result is computed twice, with the largest error (requant_error()) subtracted and added:
// where both give the same int8, so does the exact one. The few others are computed in doubles.
//
// Where sums lose bits first (graph_stages.sum_shift), a pass over a chunk of them, which is in the
// L1 cache, completes and cuts them (requant_cut_sums()); all stages then find sums without bias.
//
// REQUANT_FLOAT32 is ONNX Runtime's: one float product, rounded to nearest, ties to even, before zp
// is added.
//
// Compiled without contracted products, so that each rounding is where the source has it.
//
// Tests: test_sim_conv on every instruction set, against 64-bit integers; test_npuref, against
// files' own programs.
#include "npu/sim/conv/conv_requantize.h"

#include <math.h>
#include <stdlib.h>

#define MAX_EXACT   (1 << 24) // floats below hold all integers
#define MAX_ROUNDED (1 << 22) // … and these are rounded by REQUANT_INTEGER_FLOAT
#define MOST_OPEN   4         // of as many channels one: with more of them all are done in doubles

// ---- preparation ----

static bool requant_is_clip(const struct graph_post *post)
{
    return post->kind == POST_RELU || post->kind == POST_CLIP;
}

static double requant_factor(struct graph_scaling s)
{
    return ldexp(s.factor, -(int)s.shift);
}

// ONNX Runtime's: bounds alone. They are rounded as values are: then clamping after the rounding is
// clamping before it.
static bool requant_take_bounds(const struct step *s, struct conv_requant *f)
{
    int32_t odd = f->form.odd;
    f->low = -128 - f->form.zp;
    f->high = 127 - f->form.zp;
    for (uint32_t i = 0; i < s->node->n_post; i++) {
        const struct graph_post *post = &s->node->post[i];
        if (!requant_is_clip(post))
            return false;
        bool relu = post->kind == POST_RELU;
        f->low = fmax(f->low, relu ? 0 : (double)post->alpha);
        f->high = fmin(f->high, relu ? INFINITY : (double)post->beta);
    }
    f->low = rint(f->low - odd) + odd;
    f->high = rint(fmax(f->high, -128 - f->form.zp) - odd) + odd;
    f->kind = REQUANT_FLOAT32;
    return true;
}

// Whether the node's activations are all in its stages: LeakyRelu, Relu, Add, Relu, in that order.
static bool requant_take_stages(const struct step *s, struct conv_requant *f)
{
    const struct graph_stages *stages = s->node->quant->stages;
    const struct graph_post *post = s->node->post, *end = post + s->node->n_post;
    bool leaky = post < end && post->kind == POST_LEAKY_RELU;
    if (!stages)
        return false;
    f->stages = *stages;
    post += leaky;
    for (; post < end && post->kind == POST_RELU; post++)
        f->stages.bounds[0] = f->stages.bounds[0] > 0 ? f->stages.bounds[0] : 0;
    if (post < end && post->kind == POST_ADD && stages->has_addend) {
        const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
        if (t->type != TENSOR_INT8 || !t->quantized)
            return false;
        f->addend = post++->operand;
    }
    for (; post < end && post->kind == POST_RELU; post++)
        f->stages.sum_bounds[0] = f->stages.sum_bounds[0] > 0 ? f->stages.sum_bounds[0] : 0;
    f->kind = leaky ? (f->addend >= 0 ? REQUANT_LEAKY_ADD : REQUANT_LEAKY)
                    : (f->addend >= 0 ? REQUANT_ADD : REQUANT_PLAIN);
    return post == end;
}

static bool requant_alloc(struct step *s, struct requant_factors *f, size_t n)
{
    for (int i = 0; i < 2; i++)
        f->exact[i] = step_alloc(s, n, sizeof *f->exact[i]);
    f->stage = step_alloc(s, n, sizeof *f->stage);
    f->positive = step_alloc(s, n, sizeof *f->positive);
    f->negative = step_alloc(s, n, sizeof *f->negative);
    return f->exact[0] && f->exact[1] && f->stage && f->positive && f->negative;
}

static void requant_take_factors(const struct step *s, struct conv_requant *f, size_t n)
{
    const struct graph_stages *t = &f->stages;
    double out = requant_factor(t->out);
    double bn[2] = {requant_factor(t->bn[0]) * out, requant_factor(t->bn[1]) * out};
    for (size_t i = 0; i < n + CONV_MORE; i++) {
        size_t o = i % n;
        if (f->kind == REQUANT_FLOAT32) {
            f->factors.positive[i] = (float)s->node->quant->scale[o];
            continue;
        }
        double mul = t->mul[o];
        int negative = mul < 0; // which product is negative
        f->factors.exact[negative][i] = ldexp(mul, -(int)t->mul_shift[0]);
        f->factors.exact[!negative][i] = ldexp(mul, -(int)t->mul_shift[1]);
        f->factors.stage[i] = (float)f->factors.exact[1][i];
        f->factors.positive[i] = (float)(f->factors.exact[0][i] * bn[0]);
        f->factors.negative[i] = (float)bn[1];
    }
}

// The largest that an addend adds, in units of the output.
static double requant_addend_reach(const struct conv_requant *f)
{
    const struct graph_stages *t = &f->stages;
    double reach = fmax(fabs(t->addend_offset - 128.0), fabs(t->addend_offset + 127.0));
    return f->addend < 0 ? 0 : reach * fabs(requant_factor(t->addend));
}

// The largest |x * out| that lies within the output's bounds, with the addend or before it is
// added.
static double requant_reach(const struct conv_requant *f)
{
    const struct graph_stages *t = &f->stages;
    return fmax(127.0 - t->zp, 128.0 + t->zp) + 1 +
           requant_addend_reach(f) * fabs(requant_factor(t->out));
}

// Of a LeakyRelu in floats: a half of each stage that is not rounded (the first one of negative
// sums is), and what the roundings of factors, products and sums come to where the result is within
// bounds: each 2^-24 of its own at most.
static float requant_error(const struct conv_requant *f)
{
    const struct graph_stages *t = &f->stages;
    double out = fabs(requant_factor(t->out)), bn = fabs(requant_factor(t->bn[0]));
    double stages = t->mul_shift[0] ? bn * out / 2 : 0;
    stages += t->bn[0].shift || t->bn[1].shift ? out / 2 : 0;
    return (float)(stages + 0x1p-24 * (f->addend < 0 ? 2 : 6) * (requant_reach(f) + 1));
}

// Whether floats hold all numbers of a channel that do not lie beyond the output's bounds anyway. A
// factor of 0, as channels have that nothing reaches, makes 0 of any float; a negative one needs
// no care where negative sums have no stages of their own.
static bool requant_channel_fits(const struct conv *c, const struct conv_requant *f, size_t o)
{
    const struct graph_stages *t = &f->stages;
    if (requant_is_leaky(f->kind) ? t->mul[o] <= 0 : t->mul[o] == 0)
        return !requant_is_leaky(f->kind);
    double out = fabs(requant_factor(t->out)), beyond = requant_reach(f) + 1;
    double stage = requant_is_leaky(f->kind) ? fabs(requant_factor(t->bn[1])) * out : out;
    double sum = fabs((double)f->factors.stage[o]) * stage;
    double max_sum = (double)c->max_sums[o] + ldexp(t->sum_shift ? 0.5 : 0, (int)t->sum_shift);
    if (requant_is_leaky(f->kind))
        sum = fmin(sum, fabs((double)f->factors.positive[o]));
    bool sums = max_sum < MAX_EXACT || sum * MAX_EXACT > beyond;
    bool stages =
        max_sum * fabs((double)f->factors.stage[o]) < MAX_ROUNDED || stage * MAX_ROUNDED > beyond;
    return sums && stages;
}

// Whether it can be promised of some channels: which they are is left to requant_channel_fits().
static bool requant_may_fit_floats(const struct conv *c)
{
    const struct conv_requant *f = &c->requant;
    const struct graph_stages *t = &f->stages;
    bool leaky = requant_is_leaky(f->kind);
    bool sides = leaky ? t->bn[0].factor > 0 && t->bn[1].factor > 0 && t->out.factor > 0
                       : t->mul_shift[0] == t->mul_shift[1] && t->bn[0].factor == 1 &&
                             t->bn[0].shift == 0 && t->bn[1].factor == 1 && t->bn[1].shift == 0;
    // Bounds in front of an addition are not those behind it.
    bool bounded = t->bounds[0] > INT32_MIN || t->bounds[1] < INT32_MAX;
    double reach = requant_addend_reach(f);
    double min_factor =
        fmin(fmin(fabs(requant_factor(t->bn[0])), fabs(requant_factor(t->bn[1]))), 1);
    bool saturates = INT32_MAX * min_factor * fabs(requant_factor(t->out)) < requant_reach(f);
    bool wide = abs(t->addend_offset) > INT16_MAX - 128; // kernels add it to bytes in 16 bits
    return sides && !saturates && (f->addend < 0 || (!bounded && !wide)) && reach < MAX_ROUNDED;
}

// Sets what of it is done in doubles.
static int requant_find_open(struct step *s, struct conv *c, struct error *e)
{
    struct conv_requant *f = &c->requant;
    uint32_t n = 0;
    f->in_doubles = f->kind != REQUANT_FLOAT32 && !requant_may_fit_floats(c);
    if (f->kind == REQUANT_FLOAT32 || f->in_doubles)
        return 0;
    for (uint32_t o = 0; o < c->oc; o++)
        n += !requant_channel_fits(c, f, o);
    f->in_doubles = n > 0;
    if (!n || n > c->oc / MOST_OPEN)
        return 0;
    uint32_t *open = step_alloc(s, n, sizeof *open);
    if (!open)
        return error_no_memory(e, "channels", n * sizeof *open);
    f->open = open;
    for (uint32_t o = 0; o < c->oc; o++)
        if (!requant_channel_fits(c, f, o))
            open[f->n_open++] = o;
    return 0;
}

static struct requant_exact requant_exact_stages(const struct conv_requant *f)
{
    const struct graph_stages *t = &f->stages;
    return (struct requant_exact){
        .bn = {requant_factor(t->bn[0]), requant_factor(t->bn[1])},
        .bounds = {t->bounds[0], t->bounds[1]},
        .addend = requant_factor(t->addend),
        .addend_bounds = {t->sum_bounds[0], t->sum_bounds[1]},
        .out = requant_factor(t->out),
        .to_stored = REQUANT_INTEGER + t->zp,
        .low = REQUANT_INTEGER - 128,
        .high = REQUANT_INTEGER + 127,
    };
}

// A bound in front of the last stage as one behind it, as a stored value.
static float requant_stored_bound(const struct graph_stages *t, int which)
{
    int32_t first = t->bounds[which], second = t->sum_bounds[which];
    double bound = (first > second) == (which == 0) ? first : second;
    return (float)fmin(fmax(rint(fma(bound, requant_factor(t->out), t->zp)), -128), 127);
}

static bool requant_has_vectors(void)
{
#ifdef __aarch64__
    return true;
#else
    return dnn_has_vnni();
#endif
}

// For a last stage that takes REQUANT_INTEGER_FLOAT with what it multiplies.
static double requant_to_merged(const struct conv_requant *f)
{
    const double integer = (double)REQUANT_INTEGER_FLOAT;
    return integer + f->stages.zp - integer * requant_factor(f->stages.out);
}

// Whether all outputs are integers of 16 bits before they are clamped, their bounds of 8.
static bool requant_is_narrow(const struct conv *c)
{
    const struct conv_requant *f = &c->requant;
    const struct graph_stages *t = &f->stages;
    bool floats = f->kind == REQUANT_FLOAT32;
    double most = 0, zp = floats ? f->form.zp : t->zp;
    for (size_t o = 0; o < c->oc; o++) {
        double sum = (double)c->max_sums[o] + ldexp(t->sum_shift ? 0.5 : 0, (int)t->sum_shift);
        for (int side = 0; side < 2; side++)
            most = fmax(most, floats ? sum * fabs((double)f->factors.positive[o])
                                     : (sum * fabs(f->factors.exact[side][o]) + 1) *
                                           fabs(requant_factor(t->bn[side])));
    }
    if (!floats)
        most = (most + requant_addend_reach(f) + 2) * fabs(requant_factor(t->out));
    bool bounds = !floats || (f->low + zp >= INT8_MIN && f->low + zp <= INT8_MAX);
    return bounds && most + fabs(zp) + 2 < INT16_MAX;
}

// What is the same in all runs.
static struct requant_job requant_job_of(const struct conv *c)
{
    const struct conv_requant *f = &c->requant;
    bool floats = f->kind == REQUANT_FLOAT32;
    struct requant_job t = {.kind = f->kind,
                            .in_doubles = f->in_doubles && !f->n_open,
                            .bias = c->bias,
                            .factors = f->factors,
                            .exact = requant_exact_stages(f),
                            .out = (float)requant_factor(f->stages.out),
                            .error = f->error,
                            .narrow = requant_is_narrow(c),
                            .addend_offset = f->stages.addend_offset,
                            .addend_factor = (float)requant_factor(f->stages.addend),
                            .zp_after = floats ? f->form.zp : 0};
    const double merged = requant_to_merged(f);
    t.to_merged = (float)merged;
    t.merged = !((double)t.to_merged < merged || (double)t.to_merged > merged);
    t.to_stored = REQUANT_INTEGER_FLOAT + (float)(floats ? 0 : f->stages.zp);
    t.low = REQUANT_INTEGER_FLOAT + (floats ? (float)f->low : requant_stored_bound(&f->stages, 0));
    t.high =
        REQUANT_INTEGER_FLOAT + (floats ? (float)f->high : requant_stored_bound(&f->stages, 1));
    if (t.narrow) {
        t.bounds[0] = (int8_t)(t.low - REQUANT_INTEGER_FLOAT + (float)t.zp_after);
        t.bounds[1] = (int8_t)(t.high - REQUANT_INTEGER_FLOAT + (float)t.zp_after);
    }
    return t;
}

// As many as c->bias has, since few channels may share a vector.
// The job's bias becomes 0: cut sums have theirs.
static int requant_keep_bias(struct step *s, struct conv *c, struct error *e)
{
    int32_t *bias = step_alloc(s, c->oc + CONV_MORE, sizeof *bias);
    int32_t *none = step_alloc(s, c->oc + CONV_MORE, sizeof *none);
    if (!bias || !none)
        return error_no_memory(e, "a bias", c->oc * sizeof *bias);
    for (uint32_t o = 0; o < c->oc + CONV_MORE; o++)
        bias[o] = s->node->quant->bias[o % c->oc];
    c->requant.own_bias = bias;
    c->requant.job->bias = none;
    return 0;
}

int conv_requantize_prepare(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct conv_requant *f = &c->requant;
    *f = (struct conv_requant){.addend = -1, .form = element_form(y)};
    bool done =
        y->type == TENSOR_INT8 && y->quantized &&
        (s->node->quant->in_output_units ? requant_take_bounds(s, f) : requant_take_stages(s, f));
    const struct graph_stages *stages = s->node->quant->stages;
    uint32_t sum_shift = stages ? stages->sum_shift : 0;
    if (!done) {
        f->kind = REQUANT_NONE;
        return sum_shift ? step_refuse(s, e, "what follows sums that are shifted is not known") : 0;
    }
    f->job = step_alloc(s, 1, sizeof *f->job);
    if (!f->job || !requant_alloc(s, &f->factors, c->oc + CONV_MORE))
        return error_no_memory(e, "scales", c->oc * sizeof(double));
    requant_take_factors(s, f, c->oc);
    f->vectors = requant_has_vectors();
    if (requant_find_open(s, c, e) < 0)
        return STATUS_MALLOC_FAIL;
    f->error = requant_error(f);
    *f->job = requant_job_of(c);
    return sum_shift ? requant_keep_bias(s, c, e) : 0;
}

// ---- running ----

void conv_requantize_begin(const struct step *s, const struct conv *c, const struct run *r,
                           struct requant_job *ret)
{
    *ret = *c->requant.job;
    ret->nz = c->requant.own_bias ? NULL : c->nz;
    ret->complete = c->kernel == CONV_VNNI || c->requant.own_bias;
    ret->groups = ret->nz ? c->window.groups : 1;
    ret->channels = c->oc / ret->groups;
    ret->dst = run_output(s, r, 0);
    if (c->requant.addend >= 0)
        ret->addend = run_tensor(r, (uint32_t)c->requant.addend);
}

static void requant_run_all(const struct requant_job *t, bool vectors)
{
    if (vectors && t->channels >= CONV_LANES)
        conv_requantize_vectors(t);
    else if (conv_requantize_has_avx2(t))
        conv_requantize_avx2(t);
    else
        conv_requantize_any(t);
}

// Few channels: several pixels, as many as fill a vector, are taken for one with more channels.
// What is left of them is done as it is.
static void requant_run(struct requant_job *t, bool vectors)
{
    size_t groups_at_once =
        t->nz || t->groups > 1 || CONV_LANES % t->channels ? 1 : CONV_LANES / t->channels;
    if (groups_at_once == 1) {
        requant_run_all(t, vectors);
        return;
    }
    struct requant_job many = *t;
    many.n /= groups_at_once;
    many.channels *= groups_at_once;
    size_t done = many.n * many.channels;
    requant_run_all(&many, vectors);
    t->n -= many.n * groups_at_once;
    t->sums += done;
    t->dst += done;
    t->addend = t->addend ? t->addend + done : NULL;
    if (t->n)
        conv_requantize_any(t);
}

// Of the pixels of `t` those channels of which floats promise nothing.
static void requant_run_open(const struct conv *c, const struct requant_job *t)
{
    for (uint32_t i = 0; i < c->requant.n_open; i++) {
        const size_t o = c->requant.open[i], group = t->groups > 1 ? o / t->channels : 0;
        struct requant_part part = {.sums = t->sums + o,
                                    .pitch = t->channels,
                                    .first = group,
                                    .n = t->groups > 1 ? 1 : t->n,
                                    .from = o - group * t->channels,
                                    .count = 1};
        for (; part.first < t->n; part.first += t->groups, part.sums += c->oc) {
            conv_requantize_exact(t, &part);
            if (t->groups == 1)
                break;
        }
    }
}

// n channels of one pixel, complete: without its own bias each sum becomes a multiple of 2^shift,
// the nearest, the even one of two. What is taken away and added depends on its low bits alone, so
// that nothing overflows. `up` is 2^shift where the rest is more than a half, or a half of an odd
// multiple.
static inline void requant_cut_pixel(int32_t *restrict sums, const int32_t *restrict bias,
                                     const int32_t *restrict own_bias, size_t n, uint32_t shift)
{
    uint32_t one = 1u << shift, half = one / 2;
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = (uint32_t)sums[i] + (uint32_t)bias[i], raw = sum - (uint32_t)own_bias[i];
        uint32_t rest = raw & (one - 1), odd = raw >> shift & 1;
        uint32_t up = (rest + half - 1 + odd) & ~(one - 1);
        sums[i] = (int32_t)(sum - rest + up);
    }
}

static inline void requant_add_windows(int32_t *restrict sums, const int32_t *restrict nz, size_t n,
                                       uint32_t window)
{
    for (size_t i = 0; i < n; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)nz[i] * window);
}

// windows: of the first pixel; NULL where there are no zero points of weights.
KERNEL(void, requant_cut_sums,
       (const struct conv *c, int32_t *sums, const int32_t *windows, size_t n_pixels),
       (c, sums, windows, n_pixels))
{
    size_t groups = c->window.groups, each = c->oc / groups;
    for (size_t p = 0; p < n_pixels; p++, sums += c->oc) {
        for (size_t g = 0; windows && g < groups; g++)
            requant_add_windows(sums + g * each, c->nz + g * each, each,
                                (uint32_t)windows[p * groups + g]);
        requant_cut_pixel(sums, c->bias, c->requant.own_bias, c->oc, c->requant.stages.sum_shift);
    }
}

void conv_requantize(const struct step *s, const struct conv *c, struct run *r, int32_t *sums,
                     size_t first, size_t n_pixels)
{
    struct requant_job t;
    conv_requantize_begin(s, c, r, &t);
    if (c->requant.own_bias)
        requant_cut_sums(
            c, sums,
            c->nz ? (const int32_t *)run_scratch(r, c->window_at) + first * c->window.groups : NULL,
            n_pixels);
    t.n = n_pixels * t.groups;
    t.sums = sums;
    t.dst += first * c->oc;
    if (t.nz)
        t.window_sums = (const int32_t *)run_scratch(r, c->window_at) + first * t.groups;
    if (t.addend)
        t.addend += first * c->oc;
    if (!c->requant.n_open) {
        requant_run(&t, c->requant.vectors);
        return;
    }
    struct requant_job own = t;
    requant_run(&own, c->requant.vectors);
    requant_run_open(c, &t);
}
