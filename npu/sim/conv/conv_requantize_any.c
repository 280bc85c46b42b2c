// From sums of integer convolutions to int8, with the vectors of any CPU (conv_requantize.c has
// formula and rounding), and the computation in doubles that all kernels fall back to.
//
// Loops over CONV_LANES channels, which compilers turn into vectors. The outer loop is over vectors
// of channels, the inner one over pixels: what belongs to channels (bias, zero points, multipliers)
// stays in registers. Addends are widened to int32 before, and outputs narrowed to int8 behind,
// whole arrays at a time, in the L1 cache. Of a vector of channels in which any bounds differ
// (`differ`, collected by "or") those outputs are looked for, and computed again in doubles.
//
// Tests: test_sim_conv_AVX2, test_sim_conv_SSE41.
#include <math.h>

#include "npu/sim/conv/conv_requantize.h"

#define MAX_SUMS 4096

static inline int32_t requant_bits(float v)
{
    return (int32_t)float_bits(v);
}

static inline int32_t requant_low_bits(double v)
{
    union {
        double real;
        int64_t bits;
    } both = {v};
    return (int32_t)both.bits;
}

// 32 bits that wrap, as on the chips.
static inline int32_t requant_wrapping_sum(int32_t sum, int32_t bias, int32_t nz, int32_t window)
{
    return (int32_t)((uint32_t)sum + (uint32_t)bias + (uint32_t)nz * (uint32_t)window);
}

static inline double requant_integer(double v, double factor)
{
    return fma(v, factor, REQUANT_INTEGER) - REQUANT_INTEGER;
}

static inline double requant_within(double v, const double bounds[2])
{
    v = v > bounds[0] ? v : bounds[0];
    return v < bounds[1] ? v : bounds[1];
}

// All stages, with nothing left out.
static inline int8_t requant_by_stages(const struct requant_exact *t, int32_t sum,
                                       const double factors[2], int32_t addend)
{
    static const double any[2] = {INT32_MIN, INT32_MAX};
    double v = requant_within(requant_integer(sum, sum < 0 ? factors[1] : factors[0]), any);
    v = requant_within(requant_integer(v, v < 0 ? t->bn[1] : t->bn[0]), t->bounds);
    v = requant_within(v + requant_integer(addend, t->addend), t->addend_bounds);
    v = fma(v, t->out, t->to_stored);
    v = v > t->low ? v : t->low;
    return (int8_t)requant_low_bits(v < t->high ? v : t->high);
}

KERNEL(void, requant_exact, (const struct requant_job *call, const struct requant_part *of),
       (call, of))
{
    const struct requant_job t = *call;
    const struct requant_part part = *of;
    size_t channel = part.first % t.groups * t.channels + part.from;
    for (size_t g = 0; g < part.n; g++)
        for (size_t i = 0; i < part.count; i++) {
            size_t k = channel + i, at = (part.first + g) * t.channels + part.from + i;
            int32_t window = t.nz ? t.window_sums[part.first + g] : 0;
            int32_t sum = requant_wrapping_sum(part.sums[g * part.pitch + i], t.bias[k],
                                               t.nz ? t.nz[k] : 0, window);
            const double factors[2] = {t.factors.exact[0][k], t.factors.exact[1][k]};
            t.dst[at] = requant_by_stages(&t.exact, sum, factors,
                                          t.addend ? t.addend[at] + t.addend_offset : 0);
        }
}

void conv_requantize_exact(const struct requant_job *call, const struct requant_part *of)
{
    requant_exact(call, of);
}

// CONV_LANES channels from `channel` on, of n groups.
struct requant_lanes {
    const int32_t *sums, *window_sums, *addend;
    size_t channel, n;
};

static inline __attribute__((always_inline)) float requant_stage(float v, float factor)
{
    return fmaf(v, factor, REQUANT_INTEGER_FLOAT) - REQUANT_INTEGER_FLOAT;
}

// sum < 0 ? negative : other, by bits: compilers for NEON and AVX2 make branches of two choices
// that belong together, and no vectors.
static inline __attribute__((always_inline)) float requant_choose(int32_t sum, float negative,
                                                                  float other)
{
    uint32_t mask = (uint32_t)(sum >> 31);
    return bits_float((float_bits(negative) & mask) | (float_bits(other) & ~mask));
}

// The bits of both bounds of what a sum gives; the same ones where that is exact.
static inline __attribute__((always_inline)) void
requant_estimate(const struct requant_job *t, int32_t sum, size_t k, int32_t addend,
                 const enum requant_kind kind, int32_t *low, int32_t *high)
{
    float v = (float)sum, to = t->to_stored, more = 0;
    if (requant_has_addend(kind))
        more = requant_stage((float)(addend + t->addend_offset), t->addend_factor);
    if (kind == REQUANT_FLOAT32) {
        *low = *high = requant_bits(v * t->factors.positive[k] + to);
    } else if (requant_is_leaky(kind)) {
        float stage = requant_stage(v, t->factors.stage[k]);
        float positive = t->factors.positive[k], negative = t->factors.negative[k];
        v = requant_choose(sum, stage, v);
        float factor = requant_choose(sum, negative, positive);
        *low = requant_bits(fmaf(v, factor, fmaf(more, t->out, -t->error)) + to);
        *high = requant_bits(fmaf(v, factor, fmaf(more, t->out, t->error)) + to);
    } else {
        float stage = requant_stage(v, t->factors.stage[k]);
        *low = *high = requant_bits(fmaf(stage + more, t->out, to));
    }
}

// False: some of them must be computed in doubles, of channels that are not 0 in `differ`. few: a
// group has fewer channels than there are lanes.
static inline __attribute__((always_inline)) bool
requant_any_lanes(const struct requant_job *call, const struct requant_lanes *run,
                  int32_t *restrict stored, int32_t *restrict differ, bool few, bool nz,
                  const enum requant_kind kind)
{
    const struct requant_job t = *call;
    const struct requant_lanes l = *run;
    int32_t min = requant_bits(t.low), max = requant_bits(t.high);
    int32_t all = 0;
    memset(differ, 0, CONV_LANES * sizeof *differ);
    for (size_t g = 0; g < l.n; g++) {
        int32_t low, high, window = nz ? l.window_sums[g] : 0;
        for (size_t i = 0; i < CONV_LANES; i++) {
            size_t at = g * t.channels + i, k = l.channel + i;
            int32_t sum = requant_wrapping_sum(l.sums[at], t.bias[k], nz ? t.nz[k] : 0, window);
            requant_estimate(&t, sum, k, requant_has_addend(kind) ? l.addend[at] : 0, kind, &low,
                             &high);
            int32_t v = low > min ? low : min;
            v = v < max ? v : max;
            differ[i] |= low ^ high;
            stored[at] = kind == REQUANT_FLOAT32 ? v + t.zp_after : v;
        }
        // The next group overwrites what is too much, in this order. GCC 14.2 had written a lane of
        // this one behind it (docs/decisions/0311).
        if (few)
            __asm__("" : "+m"(*(int32_t(*)[CONV_LANES])(stored + g * t.channels)));
    }
    for (size_t i = 0; i < CONV_LANES; i++)
        all |= differ[i];
    return all == 0;
}

// Few outputs are open, so which they are is asked again, pixel by pixel.
static inline __attribute__((always_inline)) void
requant_any_open(const struct requant_job *t, const struct requant_lanes *run,
                 const struct requant_part *part, bool nz, const enum requant_kind kind)
{
    int32_t differ[CONV_LANES], again[CONV_LANES];
    struct requant_lanes l = *run;
    l.n = 1;
    for (size_t g = 0; g < part->n; g++) {
        if (!requant_any_lanes(t, &l, again, differ, false, nz, kind))
            for (size_t i = 0; i < part->count; i++) {
                struct requant_part one = {.sums = l.sums + i,
                                           .first = part->first + g,
                                           .n = 1,
                                           .from = part->from + i,
                                           .count = 1};
                if (differ[i])
                    conv_requantize_exact(t, &one);
            }
        l.sums += t->channels;
        l.addend += t->channels;
        l.window_sums += nz ? 1 : 0;
    }
}

static inline void requant_widen(const int8_t *restrict x, size_t n, int32_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = x[i];
}

static inline void requant_int8(const int32_t *restrict x, size_t n, int8_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int8_t)x[i];
}

// `count` channels from `from` on, of n groups from `first` on; contiguous, so count is t->channels
// where n > 1. The last vector of channels is moved back so that it ends where they end; fewer
// channels than a vector write too much, which the next group overwrites.
static inline __attribute__((always_inline)) void
requant_any_part(const struct requant_job *t, size_t first, size_t n, size_t from, size_t count,
                 bool few, bool nz, const enum requant_kind kind)
{
    int32_t addend[MAX_SUMS + CONV_LANES] __attribute__((aligned(64)));
    int32_t stored[MAX_SUMS + CONV_LANES] __attribute__((aligned(64)));
    struct requant_lanes lanes[MAX_SUMS / CONV_LANES + 1];
    bool done[MAX_SUMS / CONV_LANES + 1];
    size_t at = first * t->channels + from, o = first % t->groups * t->channels + from;
    size_t last = count > CONV_LANES ? count - CONV_LANES : 0;
    if (requant_has_addend(kind)) {
        requant_widen(t->addend + at, n * count, addend);
        // The last vector looks at these, and would take an open bound there for one of its own.
        memset(addend + n * count, 0, CONV_LANES * sizeof *addend);
    }
    for (size_t i = 0; i < count; i += CONV_LANES) {
        int32_t differ[CONV_LANES];
        size_t k = i < last ? i : last;
        struct requant_lanes *l = &lanes[i / CONV_LANES];
        *l = (struct requant_lanes){.sums = t->sums + at + k,
                                    .window_sums = nz ? t->window_sums + first : NULL,
                                    .addend = addend + k,
                                    .channel = o + k,
                                    .n = n};
        done[i / CONV_LANES] =
            !t->in_doubles && requant_any_lanes(t, l, stored + k, differ, few, nz, kind);
    }
    requant_int8(stored, n * count, t->dst + at);
    for (size_t i = 0; i < count; i += CONV_LANES) {
        size_t k = i < last ? i : last;
        struct requant_part part = {.sums = t->sums + at + k,
                                    .pitch = t->channels,
                                    .first = first,
                                    .n = n,
                                    .from = from + k,
                                    .count = count - k < CONV_LANES ? count - k : CONV_LANES};
        if (t->in_doubles)
            conv_requantize_exact(t, &part);
        else if (!done[i / CONV_LANES])
            requant_any_open(t, &lanes[i / CONV_LANES], &part, nz, kind);
    }
}

static inline __attribute__((always_inline)) void
requant_any_parts(const struct requant_job *call, bool few, bool nz, const enum requant_kind kind)
{
    const struct requant_job t = *call;
    size_t max = t.channels < MAX_SUMS ? t.channels : MAX_SUMS,
           together = t.groups > 1 ? 1 : MAX_SUMS / max;
    for (size_t i = 0; i < t.n; i += together)
        for (size_t from = 0; from < t.channels; from += max)
            requant_any_part(&t, i, t.n - i < together ? t.n - i : together, from,
                             t.channels - from < max ? t.channels - from : max, few, nz, kind);
}

static inline __attribute__((always_inline)) void
requant_any_all(const struct requant_job *t, bool nz, const enum requant_kind kind)
{
    if (t->channels < CONV_LANES)
        requant_any_parts(t, true, nz, kind);
    else
        requant_any_parts(t, false, nz, kind);
}

#define REQUANT_ANY(name) KERNEL(void, name, (const struct requant_job *t), (t))

CONV_REQUANTIZE(conv_requantize_any, REQUANT_ANY, requant_any_all)
