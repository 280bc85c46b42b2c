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

int conv_steps_prepare(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    const struct graph_conv_quant *q = s->node->quant;
    struct conv_steps *f = &c->steps;
    double step = q->in_steps ? 1 : (double)y->scale;
    size_t n = c->oc + CONV_LANES;
    *f = (struct conv_steps){.alpha = 1, .addend = -1, .form = row_form(y)};
    f->low = -128 - f->form.zp;
    f->high = 127 - f->form.zp;
    if (y->type != TENSOR_INT8 || !y->quantized || !take_posts(s, f, step))
        return 0;
    choose_kind(s, f);
    f->unit = step_alloc(s, n, sizeof *f->unit);
    f->unit_lost = step_alloc(s, n, sizeof *f->unit_lost);
    if (!f->unit || !f->unit_lost)
        return error_no_memory(e, "scales", n * sizeof *f->unit);
    for (uint32_t o = 0; o < c->oc; o++) {
        double unit = q->scale[o] / step;
        f->unit[o] = (float)unit;
        f->unit_lost[o] = (float)(unit - (double)f->unit[o]);
    }
    return 0;
}

// ---- real numbers ----

// A number and what its float has lost of it.
struct real {
    float value, lost;
};

static inline struct real real_product(float x, float y, float y_lost)
{
    float product = x * y;
    return (struct real){product, fmaf(x, y, -product) + x * y_lost};
}

static inline struct real real_sum(struct real a, struct real b)
{
    float sum = a.value + b.value, part = sum - a.value;
    float lost = (a.value - (sum - part)) + (b.value - part);
    return (struct real){sum, lost + (a.lost + b.lost)};
}

static inline struct real real_leaky(struct real v, float alpha)
{
    struct real below = real_product(v.value, alpha, 0);
    below.lost += v.lost * alpha;
    return (struct real){v.value < 0 ? below.value : v.value, v.value < 0 ? below.lost : v.lost};
}

// The nearest whole number, ties to one that is even with `odd`.
static inline float real_round(struct real v, float odd)
{
    float near = rintf(v.value - odd) + odd;
    return near + rintf((v.value - near) + v.lost);
}

// ---- sums to steps ----

typedef int8_t lanes_i8 __attribute__((vector_size(CONV_LANES), aligned(1), may_alias));
typedef int32_t lanes_i32 __attribute__((vector_size(CONV_LANES * 4), may_alias));

// One call of conv_steps_finish(). The kernels work on a copy, which no store can change.
struct finish {
    size_t pixels, groups, channels; // channels of a group
    const int32_t *sums, *windows, *bias, *nz;
    const float *unit, *unit_lost;
    const int8_t *addend;
    int8_t *dst;
    float alpha, low, high, steps, steps_lost, odd;
    int32_t addend_zp, zp;
};

// The elements from `at` on, which are channels from `o` on: all lanes of them, or only the `left`
// ones that there are.
static inline __attribute__((always_inline)) void finish_lanes(const struct finish *t, size_t at,
                                                               size_t o, size_t left, bool nz,
                                                               uint32_t window, const int kind)
{
    const int32_t *sums = t->sums + at, *bias = t->bias + o;
    lanes_i8 addend = {0};
    lanes_i32 stored;
    if (kind == FINISH_ADD)
        memcpy(&addend, t->addend + at, left);
    lanes_i32 wide = __builtin_convertvector(addend, lanes_i32);
    for (int i = 0; i < CONV_LANES; i++) {
        size_t k = o + (size_t)i;
        // As the chip does it: 32 bits that wrap.
        uint32_t sum = (uint32_t)sums[i] + (uint32_t)bias[i];
        if (nz)
            sum += (uint32_t)t->nz[k] * window;
        struct real v = real_product((float)(int32_t)sum, t->unit[k], t->unit_lost[k]);
        if (kind == FINISH_LEAKY || kind == FINISH_ADD)
            v = real_leaky(v, t->alpha);
        if (kind == FINISH_ADD)
            v = real_sum(v, real_product((float)(wide[i] - t->addend_zp), t->steps, t->steps_lost));
        float steps = kind == FINISH_FLOAT ? v.value : real_round(v, t->odd);
        steps = steps > t->low ? steps : t->low;
        steps = steps < t->high ? steps : t->high;
        union {
            float real;
            int32_t bits;
        } whole = {steps + TO_INTEGER};
        stored[i] = whole.bits + t->zp;
    }
    lanes_i8 bytes = __builtin_convertvector(stored, lanes_i8);
    memcpy(t->dst + at, &bytes, left);
}

// The same channels of all pixels, so that what belongs to them stays in registers.
static inline __attribute__((always_inline)) void
finish_channels(const struct finish *t, size_t o, size_t group, bool nz, const int kind)
{
    const struct finish f = *t;
    size_t step = f.groups * f.channels, total = f.pixels * step, at = o, p = 0;
    const int32_t *window = nz ? f.windows + group : f.sums;
    for (; p < f.pixels && at + CONV_LANES <= total; p++, at += step, window += f.groups)
        finish_lanes(&f, at, o, CONV_LANES, nz, (uint32_t)*window, kind);
    for (; p < f.pixels; p++, at += step, window += f.groups)
        finish_lanes(&f, at, o, total - at, nz, (uint32_t)*window, kind);
}

// The last channels of many are moved back so that they end where the channels end. Few are written
// with more behind them, which the next pixel (or group) overwrites.
static inline __attribute__((always_inline)) void finish(const struct finish *t, bool nz,
                                                         const int kind)
{
    size_t n = t->channels;
    for (size_t g = 0; g < t->groups; g++)
        for (size_t i = 0; i < n; i += CONV_LANES) {
            size_t back = n > CONV_LANES && i + CONV_LANES > n ? i + CONV_LANES - n : 0;
            finish_channels(t, g * n + i - back, g, nz, kind);
        }
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
    struct finish t = {.pixels = n_pixels,
                       .groups = nz ? c->window.groups : 1,
                       .channels = nz ? c->oc / c->window.groups : c->oc,
                       .sums = sums,
                       .bias = c->bias,
                       .nz = c->nz,
                       .unit = f->unit,
                       .unit_lost = f->unit_lost,
                       .alpha = f->alpha,
                       .low = (float)f->low,
                       .high = (float)f->high,
                       .steps = f->addend_steps,
                       .steps_lost = f->addend_steps_lost,
                       .odd = (float)f->form.odd,
                       .addend_zp = f->addend_zp,
                       .zp = f->form.zp};
    t.dst = (int8_t *)run_output(s, r, 0) + first * c->oc;
    if (nz)
        t.windows = (const int32_t *)run_scratch(r, c->window_at) + first * t.groups;
    if (f->kind == FINISH_ADD)
        t.addend = (const int8_t *)run_tensor(r, (uint32_t)f->addend) + first * c->oc;
    kernels[f->kind][nz](&t);
}
