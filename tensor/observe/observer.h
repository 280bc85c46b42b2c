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

struct observer {
    float min, max; // of finite values; max < min: there was none
    uint64_t n;     // values
    uint64_t n_bad; // that are no finite numbers; they are in nothing else
    int32_t exponent;
    uint32_t n_channels; // 0: sums are not kept
    uint64_t n_summed;   // values that are in the sums
    double *sums;        // of each channel
    uint64_t *bins;      // NULL: none
};

/// Without memory for sums and bins: bounds alone are kept, until it has got some.
struct observer observer_empty(void);

/// n_channels 0: no sums.
int observer_init(struct observer *o, uint32_t n_channels, struct error *e);
void observer_done(struct observer *o);

/// Makes room for the sums of channels, if there is none.
int observer_widen(struct observer *o, uint32_t n_channels, struct error *e);

// ---- parts, which whoever has wider vectors compiles anew ----

struct observer_bounds {
    float min, max;
    uint32_t n_bad;
};

#define OBSERVER_LANES 8

// Floats as integers of the same order, since compilers make vectors of comparisons of these alone.
static inline __attribute__((always_inline)) struct observer_bounds
observer_bounds_of(const float *v, size_t n)
{
    const int32_t infinite = 0x7f800000;
    int32_t low = INT32_MAX, high = INT32_MIN, largest = 0;
    struct observer_bounds b = {__builtin_inff(), -__builtin_inff(), 0};
    for (size_t i = 0; i < n; i++) {
        int32_t bits, size;
        __builtin_memcpy(&bits, v + i, sizeof bits);
        size = bits & INT32_MAX;
        bits ^= (bits >> 31) & INT32_MAX;
        low = bits < low ? bits : low;
        high = bits > high ? bits : high;
        largest = size > largest ? size : largest;
    }
    for (size_t i = 0; i < n && largest >= infinite; i++)
        b.n_bad += !(__builtin_fabsf(v[i]) <= __FLT_MAX__);
    if (!n || b.n_bad)
        return b;
    low ^= (low >> 31) & INT32_MAX;
    high ^= (high >> 31) & INT32_MAX;
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

// Sums of channels, of which n_channels follow each other, `inner` elements each.
static inline __attribute__((always_inline)) void
observer_sum_of(const float *v, uint64_t n, uint64_t inner, uint32_t n_channels, double *sums)
{
    uint64_t all = inner * n_channels;
    for (uint64_t at = 0; inner == 1 && at + all <= n; at += all)
        for (uint32_t c = 0; c < n_channels; c++)
            sums[c] += (double)v[at + c];
    for (uint64_t at = 0; inner > 1 && at + all <= n; at += all)
        for (uint32_t c = 0; c < n_channels; c++) {
            const float *from = v + at + c * inner;
            double lanes[OBSERVER_LANES] = {0}, total = 0;
            uint64_t i = 0;
            for (; i + OBSERVER_LANES <= inner; i += OBSERVER_LANES)
                for (uint64_t k = 0; k < OBSERVER_LANES; k++)
                    lanes[k] += (double)from[i + k];
            for (; i < inner; i++)
                total += (double)from[i];
            for (uint64_t k = 0; k < OBSERVER_LANES; k++)
                total += lanes[k];
            sums[c] += total;
        }
}

struct observer_parts {
    struct observer_bounds (*bounds)(const float *v, size_t n);
    void (*index)(const float *v, size_t n, float factor, uint16_t *index);
    void (*sum)(const float *v, uint64_t n, uint64_t inner, uint32_t n_channels, double *sums);
};

// Room that adding works in, for one thread.
struct observer_scratch {
    uint32_t n_tables; // of the four that are used
    uint32_t bins[4][OBSERVER_BINS];
    uint16_t index[4096];
};

/// Adds values; whole rounds of channels. `parts` NULL: its own. `inner`: how many elements lie
/// between two of neighbouring channels (images in planes: height * width; 1: channels innermost).
void observer_add(struct observer *o, const float *values, uint64_t n, uint64_t inner,
                  struct observer_scratch *scratch, const struct observer_parts *parts);

/// Adds what another one has seen.
void observer_merge(struct observer *o, const struct observer *other);
