// What is kept of a tensor's values: bounds, a histogram, means of channels. Of any number of
// values it takes the same memory, and what is kept does not depend on their order.
//
// A bin is [i, i + 1) * 2^exponent, i in [-2048, 2048). The exponent is the least with which all
// values lie in some bin; as 0 is a border and widths are powers of two, coarser bins are sums of
// finer ones, exactly.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define OBSERVER_SIDE   2048 // bins on each side of 0
#define OBSERVER_BINS   (2 * OBSERVER_SIDE)
#define OBSERVER_FINEST (-120) // least exponent

#define OBSERVER_WAITING 4096

// Values that are to be counted, each for `weight` values.
struct observer_waiting {
    float *values; // OBSERVER_WAITING; NULL: there was none
    uint32_t n, weight;
};

struct observer {
    float min, max; // of finite values; max < min: there was none
    uint64_t n;     // values
    uint64_t n_bad; // that are no finite numbers; they are in nothing else
    int32_t exponent;
    bool counted;                       // some bin may have something
    uint32_t n_channels;                // 0: sums are not kept
    uint64_t n_summed;                  // values that are in the sums
    double *sums;                       // of each channel
    uint64_t *bins;                     // NULL: none
    struct observer_waiting waiting[2]; // that stand for others, too; for themselves alone
};

/// n_channels 0: no sums.
int observer_init(struct observer *o, uint32_t n_channels, struct error *e);
void observer_done(struct observer *o);

/// Whether its bounds are finite and in order, as those of values are.
static inline bool observer_is_bounded(const struct observer *o)
{
    return o->min >= -__FLT_MAX__ && o->min <= o->max && o->max <= __FLT_MAX__;
}

/// Makes room for the sums of channels, if there is none.
int observer_widen(struct observer *o, uint32_t n_channels, struct error *e);

// ---- parts, which whoever has wider vectors compiles anew ----

struct observer_bounds {
    float min, max;
    uint32_t n_bad;
};

#define OBSERVER_LANES 8
#define OBSERVER_ROWS  64

// Floats as integers, since compilers make vectors of comparisons of these alone. Bits of positive
// floats have their order; those of negative ones come behind them as unsigned numbers, the farther
// from 0 the later. So the largest signed number is the largest float, the largest unsigned one the
// least, and if there is none of a sign, the least unsigned number is the other end.
static inline __attribute__((always_inline)) struct observer_bounds
observer_bounds_of(const float *v, size_t n)
{
    const uint32_t infinite = 0x7f800000, sign = 0x80000000;
    uint32_t first = UINT32_MAX, last = 0, low, high;
    int32_t largest = INT32_MIN;
    struct observer_bounds b = {__builtin_inff(), -__builtin_inff(), 0};
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        __builtin_memcpy(&bits, v + i, sizeof bits);
        first = bits < first ? bits : first;
        last = bits > last ? bits : last;
        largest = (int32_t)bits > largest ? (int32_t)bits : largest;
    }
    bool bad = n && (largest >= (int32_t)infinite || last >= (sign | infinite));
    for (size_t i = 0; i < n && bad; i++)
        b.n_bad += (uint32_t) !(__builtin_fabsf(v[i]) <= __FLT_MAX__);
    if (!n || b.n_bad)
        return b;
    high = largest >= 0 ? (uint32_t)largest : first;
    low = last >= sign ? last : first;
    __builtin_memcpy(&b.min, &low, sizeof low);
    __builtin_memcpy(&b.max, &high, sizeof high);
    return b;
}

// The bins' numbers: floor(v / 2^exponent) without a function for it: cut towards 0, and one less
// where that is above. `factor`: 2^-exponent.
static inline __attribute__((always_inline)) void observer_index_of(const float *v, size_t n,
                                                                    float factor, uint16_t *index)
{
    for (size_t i = 0; i < n; i++) {
        float scaled = v[i] * factor;
        int32_t cut = (int32_t)scaled;
        cut -= (float)cut > scaled;
        index[i] = (uint16_t)(cut + OBSERVER_SIDE);
    }
}

// Four values as one: their sum is rounded as a float, by 2^-24 up or down, which no mean of many
// notices. Quarters, so that it is never too large for one.
static inline __attribute__((always_inline)) double observer_four(const float *v, uint64_t stride)
{
    float first = 0.25F * v[0] + 0.25F * v[stride];
    float second = 0.25F * v[2 * stride] + 0.25F * v[3 * stride];
    return 4 * (double)(first + second);
}

// Sums of channels, `rows` pixels of which follow each other: of some channels at a time, which
// stay in registers.
static inline __attribute__((always_inline)) void observer_sum_rows(const float *v, uint64_t rows,
                                                                    uint32_t n, double *sums)
{
    uint32_t c = 0;
    for (; c + OBSERVER_LANES <= n; c += OBSERVER_LANES) {
        double lanes[OBSERVER_LANES] = {0};
        uint64_t r = 0;
        for (; r + 4 <= rows; r += 4)
            for (uint64_t k = 0; k < OBSERVER_LANES; k++)
                lanes[k] += observer_four(v + r * n + c + k, n);
        for (; r < rows; r++)
            for (uint64_t k = 0; k < OBSERVER_LANES; k++)
                lanes[k] += (double)v[r * n + c + k];
        for (uint32_t k = 0; k < OBSERVER_LANES; k++)
            sums[c + k] += lanes[k];
    }
    for (; c < n; c++)
        for (uint64_t r = 0; r < rows; r++)
            sums[c] += (double)v[r * n + c];
}

// Of one channel, whose values follow each other.
static inline __attribute__((always_inline)) double observer_sum_plane(const float *v, uint64_t n)
{
    double lanes[OBSERVER_LANES] = {0}, total = 0;
    uint64_t i = 0;
    for (; i + 4 * OBSERVER_LANES <= n; i += 4 * OBSERVER_LANES)
        for (uint64_t k = 0; k < OBSERVER_LANES; k++)
            lanes[k] += observer_four(v + i + k, OBSERVER_LANES);
    for (; i < n; i++)
        total += (double)v[i];
    for (uint64_t k = 0; k < OBSERVER_LANES; k++)
        total += lanes[k];
    return total;
}

// Sums of channels, of which n_channels follow each other, `inner` elements each.
static inline __attribute__((always_inline)) void
observer_sum_of(const float *v, uint64_t n, uint64_t inner, uint32_t n_channels, double *sums)
{
    uint64_t all = inner * n_channels, rows = n / n_channels;
    for (uint64_t r = 0; inner == 1 && r < rows; r += OBSERVER_ROWS)
        observer_sum_rows(v + r * n_channels, rows - r < OBSERVER_ROWS ? rows - r : OBSERVER_ROWS,
                          n_channels, sums);
    for (uint64_t at = 0; inner > 1 && at + all <= n; at += all)
        for (uint32_t c = 0; c < n_channels; c++)
            sums[c] += observer_sum_plane(v + at + c * inner, inner);
}

// Four tables' counts, in the first one.
static inline __attribute__((always_inline)) void
observer_join_of(uint32_t (*tables)[OBSERVER_BINS])
{
    for (uint32_t i = 0; i < OBSERVER_BINS; i++)
        tables[0][i] += tables[1][i] + tables[2][i] + tables[3][i];
}

struct observer_parts {
    struct observer_bounds (*bounds)(const float *v, size_t n);
    void (*index)(const float *v, size_t n, float factor, uint16_t *index);
    void (*join)(uint32_t (*tables)[OBSERVER_BINS]);
};

// Room that looking at values works in, for one thread.
struct observer_scratch {
    uint32_t n_tables; // of the four that are used
    int32_t exponent;  // of the tables' bins
    uint32_t bins[4][OBSERVER_BINS];
    uint16_t index[4096];
};

/// Bounds of fewer than 2^32 values and, with `counts`, how many are in each bin: in
/// scratch->bins[0], of bins that are 2^scratch->exponent wide. With n_bad only that is told.
/// `parts` NULL: its own.
struct observer_bounds observer_look(const float *values, uint64_t n, bool counts,
                                     struct observer_scratch *scratch,
                                     const struct observer_parts *parts);

/// Adds fewer than 2^32 values; whole rounds of channels. `inner`: how many elements lie between
/// two of neighbouring channels (images in planes: height * width; 1: channels innermost; 0: their
/// sums are not wanted).
void observer_add(struct observer *o, const float *values, uint64_t n, uint64_t inner,
                  struct observer_scratch *scratch);

/// Adds counts of OBSERVER_BINS bins that are 2^exponent wide.
void observer_add_counts(struct observer *o, int32_t exponent, const uint32_t *counts);

/// Counts values, which lie within what was seen, o->min to o->max; bins are as wide as that needs.
void observer_count_now(struct observer *o, const float *values, uint64_t n, uint32_t weight);

/// The same, once there are many or observer_flush() says so.
int observer_count_values(struct observer *o, const float *values, uint64_t n, uint32_t weight,
                          struct error *e);
void observer_flush(struct observer *o);

/// Adds what another one has seen, which has nothing waiting.
void observer_merge(struct observer *o, const struct observer *other);
