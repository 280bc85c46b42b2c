// Of a large tensor's values not all are counted, but about `most` for all of them, and those far
// out for themselves, as they decide what clipping costs.
//
// Values at places 0, k, 2 k, … stand for k values each, in the order that has channels, the second
// dimension, last (batch, height, width, channel), however the tensor lies in memory. k is the
// least number from n / most on that has no common factor with n, the tensor's values: so k has
// none with any dimension, and all columns and channels have their turn.
//
// A tail is what lies above a quarter, half, three quarters or seven eighths of the largest value;
// likewise below the least (where these are on their side of 0). The longest of these four with at
// most sampling_tail() values is counted in their place, each for itself; if there is none, nothing
// is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Of a tensor's values, from all samples together, and the least of one sample's: where a histogram
// decides what is cut off, and where it is only shown, and errors are estimated by it.
#define SAMPLING_ALL         131072
#define SAMPLING_LEAST       32
#define SAMPLING_SHOWN       16384
#define SAMPLING_SHOWN_LEAST 16

#define SAMPLING_LEVELS 4 // of tails

/// k, for a tensor of n values, so that about `most` are counted; 1: all.
uint64_t sampling_stride(uint64_t n, uint64_t most);

/// The most values of a tail of a tensor of n.
static inline uint32_t sampling_tail(uint64_t n)
{
    return n < 4 * 4096 ? 4 : n < 128 * 4096 ? (uint32_t)(n / 4096) : 128;
}

static inline uint64_t sampling_count(uint64_t n, uint64_t stride)
{
    return n / stride + (n % stride > 0);
}

/// How many values of one of `samples` samples are counted. Few samples have more of each.
static inline uint32_t sampling_most(uint32_t samples, bool decides)
{
    uint32_t all = decides ? SAMPLING_ALL : SAMPLING_SHOWN, each = samples ? all / samples : all;
    uint32_t least = decides ? SAMPLING_LEAST : SAMPLING_SHOWN_LEAST;
    return each < least ? least : each;
}

// How a tensor of n values lies in memory.
struct sampling_layout {
    uint64_t n, stride;
    uint64_t rows, columns; // 0: in the order above; else [.., columns, rows] in place of
                            // [.., rows, columns]
};

/// `inner`: elements between two of neighbouring channels in memory (1: channels last; planes:
/// their size).
void sampling_lay(struct sampling_layout *l, uint32_t n_channels, uint64_t inner);

/// The values to be counted of a tensor, however it lies, to `picked`: sampling_count() of them.
void sampling_pick_all(const float *v, const struct sampling_layout *l, float *picked);

// Both tails of a tensor: of the least values and of the largest.
struct sampling_tails {
    float low, high; // where they begin; -/+INFINITY: there is none
    float min, max;
    uint32_t most, level[2], n[2];
    float *values; // 2 * most
};

/// The next shorter tail. What is in it lies in the longer one, too.
void sampling_tail_shorten(struct sampling_tails *t, bool above);

/// For a tensor of n values between min and max; `values` has room for 2 * sampling_tail(n).
void sampling_tails_begin(struct sampling_tails *t, uint64_t n, float min, float max,
                          float *values);

/// One of the tensor's values that may lie in a tail; in any order.
void sampling_tails_put(struct sampling_tails *t, float v);

/// More of the tensor's values.
void sampling_tails_add(struct sampling_tails *t, const float *v, uint64_t n);

/// Where a tail of a level begins, whose farthest value is `end`; level SAMPLING_LEVELS: nowhere.
float sampling_tail_start(float end, uint32_t level, bool above);
