// From the sums of an integer convolution to int8, counted in steps of the output. All that is
// known of their rounding is here:
//
// The chips store the int8 that is nearest to the real number, ties to the even one. A float would
// now and then move a number over a half, and one such step in an early layer becomes many in a
// deep net. So it is counted twice in floats, once with all roundings up and once down: where both
// give the same int8 it is the right one, and the few others are counted in doubles. ONNX Runtime
// counts in floats, and so does FINISH_FLOAT. This file is compiled without contracted products.
#include <math.h>

#include "npu/sim/conv.h"

// Added to a number below 2^51, or to a float below 2^22, they leave the nearest integer (ties to
// even) in the lowest bits.
#define TO_INTEGER       6755399441055744.0
#define TO_INTEGER_FLOAT 12582912.0f

#define MOST        4096
#define MOST_GROUPS 8 // in a part with addends

#define EXACT_MOST (1 << 24)

typedef int32_t lanes_i32 __attribute__((vector_size(CONV_LANES * 4), aligned(4), may_alias));
typedef int8_t lanes_i8 __attribute__((vector_size(CONV_LANES), aligned(1), may_alias));
typedef int64_t half_lanes __attribute__((vector_size(CONV_LANES * 2), aligned(4), may_alias));
typedef int64_t quarter_lanes __attribute__((vector_size(CONV_LANES), aligned(4), may_alias));

// ---- preparation ----

static bool is_clip(const struct graph_post *post)
{
    return post->kind == POST_RELU || post->kind == POST_CLIP;
}

static bool take_addend(const struct step *s, struct conv_steps *f, const struct graph_post *post,
                        double step)
{
    const struct graph_tensor *t = &s->plan->graph->tensors[post->operand];
    f->addend = post->operand;
    f->addend_zp = t->zp;
    f->addend_steps = (double)t->scale / step;
    return t->type == TENSOR_INT8 && t->quantized;
}

// Takes what is done to outputs, as far as it comes in the order of struct conv_steps.
static bool take_posts(const struct step *s, struct conv_steps *f, double step)
{
    const struct graph_post *post = s->node->post, *end = post + s->node->n_post;
    bool floats = s->node->quant->in_steps, fits = true; // of floats only bounds are known
    if (post < end && !floats && post->kind == POST_LEAKY_RELU)
        f->alpha = (double)post++->alpha;
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

// The floats next to a number, on both sides.
static void bracket(double v, float *low, float *high)
{
    float near = (float)v;
    *low = (double)near > v ? nextafterf(near, -INFINITY) : near;
    *high = (double)near < v ? nextafterf(near, INFINITY) : near;
}

static bool take_unit(struct step *s, struct conv_unit *u, size_t n, double factor)
{
    const struct graph_conv_quant *q = s->node->quant;
    u->real = step_alloc(s, n + CONV_LANES, sizeof *u->real);
    u->near = step_alloc(s, n + CONV_LANES, sizeof *u->near);
    u->low = step_alloc(s, n + CONV_LANES, sizeof *u->low);
    u->high = step_alloc(s, n + CONV_LANES, sizeof *u->high);
    if (!u->real || !u->near || !u->low || !u->high)
        return false;
    for (size_t i = 0; i < n + CONV_LANES; i++) {
        u->real[i] = q->scale[i % n] * factor;
        u->near[i] = (float)u->real[i];
        bracket(u->real[i], &u->low[i], &u->high[i]);
    }
    return true;
}

// Below 2^24 sums are exact as floats; from there on what they give must lie beyond all bounds.
static bool fits_floats(const struct conv *c)
{
    const struct conv_steps *f = &c->steps;
    double most = 257 + 256 * f->addend_steps;
    if (c->most_sum < EXACT_MOST)
        return true;
    for (size_t i = 0; i < c->oc; i++) {
        double unit = fabs(f->unit.real[i]), below = fabs(f->below.real[i]);
        if (unit * EXACT_MOST < most || (below > 0 && below * EXACT_MOST < most))
            return false;
    }
    return true;
}

int conv_steps_prepare(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct conv_steps *f = &c->steps;
    double step = s->node->quant->in_steps ? 1 : (double)y->scale;
    *f = (struct conv_steps){.alpha = 1, .addend = -1, .form = row_form(y)};
    f->low = -128 - f->form.zp;
    f->high = 127 - f->form.zp;
    if (y->type != TENSOR_INT8 || !y->quantized || !take_posts(s, f, step))
        return 0;
    choose_kind(s, f);
    if (!take_unit(s, &f->unit, c->oc, 1 / step) ||
        !take_unit(s, &f->below, c->oc, f->alpha / step))
        return error_no_memory(e, "scales", c->oc * sizeof(double));
    f->exact = f->kind != FINISH_FLOAT && !fits_floats(c);
    return 0;
}

// ---- sums to steps ----

// One call of conv_steps_finish(), for each pixel and group one after the other. The kernels work
// on a copy, which no store can change.
struct finish {
    size_t n, groups, channels; // pixels x groups; channels of a group
    const int32_t *sums, *windows, *bias, *nz;
    struct conv_unit unit, below;
    const int8_t *addend;
    int8_t *dst;
    bool exact;
    double to_stored, low, high, addend_steps; // bounds with to_stored
    float float_to_stored, float_low, float_high;
    float addend_near, addend_low, addend_high; // steps of one; what its product is moved by
    int32_t addend_zp, zp_after;
};

// CONV_LANES channels from `channel` on, of n groups.
struct run_of_lanes {
    const int32_t *sums, *windows, *addend;
    size_t channel, n;
    int8_t *dst;     // NULL: they are kept
    int32_t *stored; // in the lowest bytes
};

static inline int32_t bits_of(float v)
{
    union {
        float real;
        int32_t bits;
    } both = {v};
    return both.bits;
}

static inline int32_t lowest_bits(double v)
{
    union {
        double real;
        int64_t bits;
    } both = {v};
    return (int32_t)both.bits;
}

// As the chip does it: 32 bits that wrap.
static inline int32_t wrap(int32_t sum, int32_t bias, int32_t nz, int32_t window)
{
    return (int32_t)((uint32_t)sum + (uint32_t)bias + (uint32_t)nz * (uint32_t)window);
}

KERNEL static void finish_exact(const struct finish *call, const struct run_of_lanes *run)
{
    const struct finish t = *call;
    const struct run_of_lanes l = *run;
    for (size_t g = 0; g < l.n; g++)
        for (size_t i = 0; i < CONV_LANES; i++) {
            size_t at = g * t.channels + i, k = l.channel + i;
            int32_t sum = wrap(l.sums[at], t.bias[k], t.nz ? t.nz[k] : 0, t.nz ? l.windows[g] : 0);
            double unit = sum < 0 ? t.below.real[k] : t.unit.real[k];
            double v = fma(sum, unit, t.to_stored);
            if (t.addend)
                v = fma(sum, unit, (l.addend[at] - t.addend_zp) * t.addend_steps) + t.to_stored;
            v = v > t.low ? v : t.low;
            l.stored[at] = lowest_bits(v < t.high ? v : t.high);
            if (l.dst)
                l.dst[at] = (int8_t)l.stored[at];
        }
}

// What a sum gives, with all roundings down and up.
static inline __attribute__((always_inline)) void estimate(const struct finish *t, int32_t sum,
                                                           size_t k, int32_t addend, const int kind,
                                                           int32_t *low, int32_t *high)
{
    float v = (float)sum, to = t->float_to_stored;
    if (kind == FINISH_FLOAT) {
        *low = *high = bits_of(v * t->unit.near[k] + to);
    } else if (kind == FINISH_ADD) {
        float unit = t->unit.near[k], below = t->below.near[k], more = (float)addend;
        unit = sum < 0 ? below : unit;
        *low = bits_of(fmaf(v, unit, fmaf(more, t->addend_near, t->addend_low)) + to);
        *high = bits_of(fmaf(v, unit, fmaf(more, t->addend_near, t->addend_high)) + to);
    } else {
        float unit_low = t->unit.low[k], unit_high = t->unit.high[k];
        if (kind == FINISH_LEAKY) {
            float below_low = t->below.low[k], below_high = t->below.high[k];
            unit_low = sum < 0 ? below_low : unit_low;
            unit_high = sum < 0 ? below_high : unit_high;
        }
        *low = bits_of(fmaf(v, unit_low, to));
        *high = bits_of(fmaf(v, unit_high, to));
    }
}

// In halves, since compilers take numbers out of a vector one by one.
static inline __attribute__((always_inline)) bool is_zero(const lanes_i32 *v)
{
    const half_lanes *halves = (const half_lanes *)v;
    half_lanes half = halves[0] | halves[1];
    const quarter_lanes *quarters = (const quarter_lanes *)&half;
    quarter_lanes quarter = quarters[0] | quarters[1];
    return (quarter[0] | quarter[1]) == 0;
}

// False: some of them must be counted in doubles.
static inline __attribute__((always_inline)) bool
finish_lanes(const struct finish *call, const struct run_of_lanes *run, int32_t *restrict stored,
             int8_t *restrict dst, bool nz, const int kind, const bool direct)
{
    const struct finish t = *call;
    const struct run_of_lanes l = *run;
    int32_t least = bits_of(t.float_low), most = bits_of(t.float_high);
    lanes_i32 differ = {0};
    for (size_t g = 0; g < l.n; g++) {
        int32_t low[CONV_LANES], high[CONV_LANES], window = nz ? l.windows[g] : 0;
        int32_t bytes[CONV_LANES];
        for (size_t i = 0; i < CONV_LANES; i++) {
            size_t at = g * t.channels + i, k = l.channel + i;
            int32_t sum = wrap(l.sums[at], t.bias[k], nz ? t.nz[k] : 0, window);
            estimate(&t, sum, k, kind == FINISH_ADD ? l.addend[at] : 0, kind, &low[i], &high[i]);
            int32_t v = low[i] > least ? low[i] : least;
            v = v < most ? v : most;
            v = kind == FINISH_FLOAT ? v + t.zp_after : v;
            if (direct)
                bytes[i] = v;
            else
                stored[at] = v;
        }
        if (direct)
            *(lanes_i8 *)(dst + g * t.channels) =
                __builtin_convertvector(*(const lanes_i32 *)bytes, lanes_i8);
        differ |= *(const lanes_i32 *)low ^ *(const lanes_i32 *)high;
    }
    return is_zero(&differ);
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
// more behind them, which the next group overwrites. `direct`: many are written at once.
static inline __attribute__((always_inline)) void finish_part(const struct finish *t, size_t first,
                                                              size_t n, size_t from, size_t count,
                                                              bool nz, const int kind,
                                                              const bool direct)
{
    int32_t addend[MOST + CONV_LANES] __attribute__((aligned(64)));
    int32_t stored[MOST + CONV_LANES] __attribute__((aligned(64)));
    size_t at = first * t->channels + from, o = first % t->groups * t->channels + from;
    if (kind == FINISH_ADD)
        widen(t->addend + at, n * count, addend);
    for (size_t i = 0; i < count; i += CONV_LANES) {
        size_t k = count > CONV_LANES && i + CONV_LANES > count ? count - CONV_LANES : i;
        struct run_of_lanes l = {.sums = t->sums + at + k,
                                 .windows = nz ? t->windows + first : NULL,
                                 .addend = addend + k,
                                 .channel = o + k,
                                 .n = n,
                                 .dst = direct ? t->dst + at + k : NULL,
                                 .stored = stored + k};
        if (t->exact || !finish_lanes(t, &l, stored + k, l.dst, nz, kind, direct))
            finish_exact(t, &l);
    }
    if (!direct)
        narrow(stored, n * count, t->dst + at);
}

static inline __attribute__((always_inline)) void finish(const struct finish *call, bool nz,
                                                         const int kind, const bool direct)
{
    const struct finish t = *call;
    size_t most = t.channels < MOST ? t.channels : MOST, together = t.groups > 1 ? 1 : MOST / most;
    if (kind == FINISH_ADD && together > MOST_GROUPS)
        together = MOST_GROUPS;
    for (size_t i = 0; i < t.n; i += together)
        for (size_t from = 0; from < t.channels; from += most)
            finish_part(&t, i, t.n - i < together ? t.n - i : together, from,
                        t.channels - from < most ? t.channels - from : most, nz, kind, direct);
}

#ifdef KERNEL_V4
#define FINISH_DIRECT(name, nz, kind)                                                              \
    KERNEL_V4 static void name##_direct(const struct finish *t)                                    \
    {                                                                                              \
        finish(t, nz, kind, true);                                                                 \
    }
#else
#define FINISH_DIRECT(name, nz, kind)                                                              \
    static void name##_direct(const struct finish *t)                                              \
    {                                                                                              \
        name(t);                                                                                   \
    }
#endif

#define FINISH(name, nz, kind)                                                                     \
    KERNEL static void name(const struct finish *t)                                                \
    {                                                                                              \
        finish(t, nz, kind, false);                                                                \
    }                                                                                              \
    FINISH_DIRECT(name, nz, kind)

FINISH(plain, false, FINISH_PLAIN)
FINISH(plain_nz, true, FINISH_PLAIN)
FINISH(leaky, false, FINISH_LEAKY)
FINISH(leaky_nz, true, FINISH_LEAKY)
FINISH(add, false, FINISH_ADD)
FINISH(add_nz, true, FINISH_ADD)
FINISH(floats, false, FINISH_FLOAT)
FINISH(floats_nz, true, FINISH_FLOAT)

// The sum of the product's, the addend's and its own roundings, and of those that these are added
// with, of what lies in bounds.
static void take_addend_floats(struct finish *t)
{
    float steps = (float)t->addend_steps, most = 1 + 256 * steps;
    float error = 0x1p-23f * (512 + 4 * most);
    t->addend_near = steps;
    t->addend_low = (float)-t->addend_zp * steps - error;
    t->addend_high = (float)-t->addend_zp * steps + error;
}

// Few channels: those of several groups, as many as fill the lanes, are taken for those of one.
static void finish_many(struct finish *t, void (*const kernels[2])(const struct finish *t))
{
    size_t together =
        t->nz || t->groups > 1 || CONV_LANES % t->channels ? 1 : CONV_LANES / t->channels;
    struct finish many = *t;
    many.n /= together;
    many.channels *= together;
    size_t done = many.n * many.channels;
    bool direct = kernel_has_v4() && many.channels >= CONV_LANES;
    kernels[direct](&many);
    t->n -= many.n * together;
    t->sums += done;
    t->dst += done;
    t->addend = t->addend ? t->addend + done : NULL;
    if (t->n)
        kernels[0](t);
}

void conv_steps_finish(const struct step *s, const struct conv *c, struct run *r,
                       const int32_t *sums, size_t first, size_t n_pixels)
{
    static void (*const kernels[][2][2])(const struct finish *t) = {
        [FINISH_PLAIN] = {{plain, plain_direct}, {plain_nz, plain_nz_direct}},
        [FINISH_LEAKY] = {{leaky, leaky_direct}, {leaky_nz, leaky_nz_direct}},
        [FINISH_ADD] = {{add, add_direct}, {add_nz, add_nz_direct}},
        [FINISH_FLOAT] = {{floats, floats_direct}, {floats_nz, floats_nz_direct}},
    };
    const struct conv_steps *f = &c->steps;
    bool nz = c->nz != NULL;
    size_t groups = nz ? c->window.groups : 1;
    int32_t zp = f->form.zp, zp_after = f->kind == FINISH_FLOAT ? zp : 0, before = zp - zp_after;
    struct finish t = {.n = n_pixels * groups,
                       .groups = groups,
                       .channels = c->oc / groups,
                       .sums = sums,
                       .bias = c->bias,
                       .nz = c->nz,
                       .unit = f->unit,
                       .below = f->below,
                       .exact = f->exact,
                       .to_stored = TO_INTEGER + zp,
                       .low = TO_INTEGER + zp + f->low,
                       .high = TO_INTEGER + zp + f->high,
                       .addend_steps = f->addend_steps,
                       .float_to_stored = TO_INTEGER_FLOAT + (float)before,
                       .float_low = TO_INTEGER_FLOAT + (float)(before + f->low),
                       .float_high = TO_INTEGER_FLOAT + (float)(before + f->high),
                       .addend_zp = f->addend_zp,
                       .zp_after = zp_after};
    t.dst = (int8_t *)run_output(s, r, 0) + first * c->oc;
    if (nz)
        t.windows = (const int32_t *)run_scratch(r, c->window_at) + first * groups;
    if (f->kind == FINISH_ADD)
        t.addend = (const int8_t *)run_tensor(r, (uint32_t)f->addend) + first * c->oc;
    take_addend_floats(&t);
    finish_many(&t, kernels[f->kind][nz]);
}
