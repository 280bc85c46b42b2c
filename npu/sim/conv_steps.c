// From the sums of an integer convolution to int8, counted in steps of the output. All that is
// known of their rounding is here:
//
// The chips store the int8 that is nearest to the real number, ties to the even one. So what a
// float cannot hold is kept beside it until the end: a float alone would now and then move a number
// over a half, and one such step in an early layer becomes many in a deep net. ONNX Runtime counts
// in floats, and so does FINISH_FLOAT. This file is compiled without contracted products.
#include <math.h>

#include "npu/sim/conv.h"

// Added to a float below 2^22 it leaves the nearest integer (ties to even) in the lowest bits.
#define TO_INTEGER 12582912.0f

#define MOST 4096 // elements in a part: they stay in the first cache

// ---- preparation ----

static bool is_clip(const struct graph_post *post)
{
    return post->kind == POST_RELU || post->kind == POST_CLIP;
}

static bool take_addend(const struct step *s, struct conv_steps *f, const struct graph_post *post,
                        double step)
{
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    double steps = (double)t->scale / step;
    f->addend = post->operand;
    f->addend_zp = t->zp;
    f->addend_steps = (float)steps;
    f->addend_steps_lost = (float)(steps - (double)f->addend_steps);
    return t->type == TENSOR_INT8 && t->quantized;
}

// Takes what is done to outputs, as far as it comes in the order of struct conv_steps.
static bool take_posts(const struct step *s, struct conv_steps *f, double step)
{
    const struct graph_post *post = s->node->post, *end = post + s->node->n_post;
    bool floats = s->node->quant->in_steps, fits = true; // of floats only bounds are known
    if (post < end && !floats && post->kind == POST_LEAKY_RELU)
        f->alpha = post++->alpha;
    if (post < end && !floats && post->kind == POST_ADD)
        fits = take_addend(s, f, post++, step);
    for (; post < end && is_clip(post); post++) {
        bool relu = post->kind == POST_RELU;
        f->low = fmax(f->low, relu ? 0 : (double)post->alpha / step);
        f->high = fmin(f->high, relu ? INFINITY : (double)post->beta / step);
    }
    f->high = fmax(f->high, -128 - f->form.zp);
    return fits && post == end;
}

// Bounds are rounded as what lies beyond them would be.
static void choose_kind(const struct step *s, struct conv_steps *f)
{
    int32_t odd = f->form.odd;
    f->low = rint(f->low - odd) + odd;
    f->high = rint(f->high - odd) + odd;
    f->kind = s->node->quant->in_steps ? FINISH_FLOAT
              : f->addend >= 0         ? FINISH_ADD
              : f->alpha != 1          ? FINISH_LEAKY
                                       : FINISH_PLAIN;
}

static int split(struct step *s, const double *from, size_t n, double factor, float **ret,
                 float **ret_lost, struct error *e)
{
    float *value = step_alloc(s, n + CONV_LANES, sizeof *value);
    float *lost = step_alloc(s, n + CONV_LANES, sizeof *lost);
    if (!value || !lost)
        return error_no_memory(e, "scales", n * sizeof *value);
    for (size_t i = 0; i < n; i++) {
        value[i] = (float)(from[i] * factor);
        lost[i] = (float)(from[i] * factor - (double)value[i]);
    }
    *ret = value;
    *ret_lost = lost;
    return 0;
}

int conv_steps_prepare(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    const struct graph_conv_quant *q = s->node->quant;
    struct conv_steps *f = &c->steps;
    double step = q->in_steps ? 1 : (double)y->scale;
    *f = (struct conv_steps){.alpha = 1, .addend = -1, .form = row_form(y)};
    f->low = -128 - f->form.zp;
    f->high = 127 - f->form.zp;
    if (y->type != TENSOR_INT8 || !y->quantized || !take_posts(s, f, step))
        return 0;
    choose_kind(s, f);
    int r = split(s, q->scale, c->oc, 1 / step, &f->unit, &f->unit_lost, e);
    return r < 0 ? r
                 : split(s, q->scale, c->oc, (double)f->alpha / step, &f->below, &f->below_lost, e);
}

// ---- real numbers ----

// A number and what its float has lost of it.
struct real {
    float value, lost;
};

static inline struct real real_product(float x, float y, float y_lost)
{
    float product = x * y;
    return (struct real){product, fmaf(x, y_lost, fmaf(x, y, -product))};
}

static inline struct real real_sum(struct real a, struct real b)
{
    float sum = a.value + b.value, part = sum - a.value;
    float lost = (a.value - (sum - part)) + (b.value - part);
    return (struct real){sum, lost + (a.lost + b.lost)};
}

// Rounds v + to_stored, which is above 2^23 and has the stored number in its lowest bits.
static inline float real_stored(struct real v, float to_stored)
{
    float near = v.value + to_stored;
    return near + rintf((v.value - (near - to_stored)) + v.lost);
}

// The same of a product.
static inline float product_stored(float x, float y, float y_lost, float to_stored)
{
    float near = fmaf(x, y, to_stored);
    return near + rintf(fmaf(x, y_lost, fmaf(x, y, to_stored - near)));
}

static inline int32_t bits_of(float v)
{
    union {
        float real;
        int32_t bits;
    } both = {v};
    return both.bits;
}

// ---- sums to steps ----

// One call of conv_steps_finish(), for each pixel and group one after the other. The kernels work
// on a copy, which no store can change.
struct finish {
    size_t n, groups, channels; // pixels x groups; channels of a group
    const int32_t *sums, *windows, *bias, *nz;
    const float *unit, *unit_lost, *below, *below_lost;
    const int8_t *addend;
    int8_t *dst;
    float low, high, steps, steps_lost, to_stored;
    int32_t addend_zp, zp;
};

// What a sum gives: to_stored and a number of steps; FINISH_FLOAT: only the latter.
static inline __attribute__((always_inline)) float
stored_sum(const struct finish *t, int32_t sum, size_t k, int32_t addend, const int kind)
{
    float unit = t->unit[k], unit_lost = t->unit_lost[k];
    if (kind == FINISH_FLOAT)
        return (float)sum * unit;
    if (kind == FINISH_LEAKY || kind == FINISH_ADD) {
        float below = t->below[k], below_lost = t->below_lost[k];
        unit = sum < 0 ? below : unit;
        unit_lost = sum < 0 ? below_lost : unit_lost;
    }
    if (kind != FINISH_ADD)
        return product_stored((float)sum, unit, unit_lost, t->to_stored);
    struct real more = real_product((float)(addend - t->addend_zp), t->steps, t->steps_lost);
    return real_stored(real_sum(real_product((float)sum, unit, unit_lost), more), t->to_stored);
}

// CONV_LANES outputs, which are channels from `o` on, in the lowest bytes of dst.
static inline __attribute__((always_inline)) void
finish_lanes(const struct finish *t, const int32_t *restrict sums, size_t o, bool nz,
             uint32_t window, const int kind, const int32_t *restrict addend, int32_t *restrict dst)
{
    for (int i = 0; i < CONV_LANES; i++) {
        size_t k = o + (size_t)i;
        // As the chip does it: 32 bits that wrap.
        uint32_t sum = (uint32_t)sums[i] + (uint32_t)t->bias[k];
        if (nz)
            sum += (uint32_t)t->nz[k] * window;
        float v = stored_sum(t, (int32_t)sum, k, kind == FINISH_ADD ? addend[i] : 0, kind);
        v = v > t->low ? v : t->low;
        v = v < t->high ? v : t->high;
        dst[i] = kind == FINISH_FLOAT ? bits_of(v + TO_INTEGER) + t->zp : bits_of(v);
    }
}

static inline void widen(const int8_t *restrict x, size_t n, int32_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = x[i];
}

static inline void narrow(const int32_t *restrict x, size_t n, int8_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int8_t)x[i];
}

// Elements that follow each other: `count` channels from `from` on, of n groups from `first` on.
// Lanes of channels go through all groups, so that what belongs to them stays in registers. The
// last of many lanes are moved back so that they end where the channels end. Few are written with
// more behind them, which the next group overwrites.
static inline __attribute__((always_inline)) void finish_part(const struct finish *t, size_t first,
                                                              size_t n, size_t from, size_t count,
                                                              bool nz, const int kind)
{
    int32_t addend[MOST + CONV_LANES], stored[MOST + CONV_LANES];
    size_t at = first * t->channels + from, o = first % t->groups * t->channels + from;
    if (kind == FINISH_ADD)
        widen(t->addend + at, n * count, addend);
    for (size_t i = 0; i < count; i += CONV_LANES) {
        size_t lanes = count > CONV_LANES && i + CONV_LANES > count ? count - CONV_LANES : i;
        for (size_t g = 0, k = lanes; g < n; g++, k += count)
            finish_lanes(t, t->sums + at + k, o + lanes, nz,
                         nz ? (uint32_t)t->windows[first + g] : 0, kind, addend + k, stored + k);
    }
    narrow(stored, n * count, t->dst + at);
}

static inline __attribute__((always_inline)) void finish(const struct finish *call, bool nz,
                                                         const int kind)
{
    const struct finish t = *call;
    size_t most = t.channels < MOST ? t.channels : MOST, together = t.groups > 1 ? 1 : MOST / most;
    for (size_t i = 0; i < t.n; i += together)
        for (size_t from = 0; from < t.channels; from += most)
            finish_part(&t, i, t.n - i < together ? t.n - i : together, from,
                        t.channels - from < most ? t.channels - from : most, nz, kind);
}

#define FINISH(name, nz, kind)                                                                     \
    KERNEL static void name(const struct finish *t)                                                \
    {                                                                                              \
        finish(t, nz, kind);                                                                       \
    }

FINISH(plain, false, FINISH_PLAIN)
FINISH(plain_nz, true, FINISH_PLAIN)
FINISH(leaky, false, FINISH_LEAKY)
FINISH(leaky_nz, true, FINISH_LEAKY)
FINISH(add, false, FINISH_ADD)
FINISH(add_nz, true, FINISH_ADD)
FINISH(floats, false, FINISH_FLOAT)
FINISH(floats_nz, true, FINISH_FLOAT)

void conv_steps_finish(const struct step *s, const struct conv *c, struct run *r,
                       const int32_t *sums, size_t first, size_t n_pixels)
{
    static void (*const kernels[][2])(const struct finish *t) = {
        [FINISH_PLAIN] = {plain, plain_nz},
        [FINISH_LEAKY] = {leaky, leaky_nz},
        [FINISH_ADD] = {add, add_nz},
        [FINISH_FLOAT] = {floats, floats_nz},
    };
    const struct conv_steps *f = &c->steps;
    bool nz = c->nz != NULL;
    size_t groups = nz ? c->window.groups : 1;
    float to_stored = TO_INTEGER + (float)f->form.zp;
    double base = f->kind == FINISH_FLOAT ? 0 : (double)to_stored;
    struct finish t = {.n = n_pixels * groups,
                       .groups = groups,
                       .channels = c->oc / groups,
                       .sums = sums,
                       .bias = c->bias,
                       .nz = c->nz,
                       .unit = f->unit,
                       .unit_lost = f->unit_lost,
                       .below = f->below,
                       .below_lost = f->below_lost,
                       .low = (float)(f->low + base),
                       .high = (float)(f->high + base),
                       .steps = f->addend_steps,
                       .steps_lost = f->addend_steps_lost,
                       .to_stored = to_stored,
                       .addend_zp = f->addend_zp,
                       .zp = f->form.zp};
    t.dst = (int8_t *)run_output(s, r, 0) + first * c->oc;
    if (nz)
        t.windows = (const int32_t *)run_scratch(r, c->window_at) + first * groups;
    if (f->kind == FINISH_ADD)
        t.addend = (const int8_t *)run_tensor(r, (uint32_t)f->addend) + first * c->oc;
    kernels[f->kind][nz](&t);
}
