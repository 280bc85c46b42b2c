// Bounds, sums of channels and chosen values of a tensor, in one pass: chunks that fit the first
// cache are looked at for all of them. Then tails, in those parts that reach so far.
#pragma once

#include "tensor/observe/observer.h"
#include "tensor/observe/sampling.h"

#define OBSERVE_CHUNK 4096 // floats
#define OBSERVE_STEP  1024 // that are worth a look
#define OBSERVE_LANES 1024 // partial sums, of channels that do not fill vectors

// What is wanted of a tensor, and how it lies.
struct observe_shape {
    struct sampling_layout layout; // stride 0: no values
    bool tails;                    // are wanted
    uint32_t n_channels;           // 0: no sums
    uint64_t inner;                // elements between two of neighbouring channels
    uint32_t lanes;                // observe_lanes(), where there are sums and inner is 1
};

struct observed {
    struct observer_bounds bounds;
    double *sums;                // n_channels; the caller's, as the next two
    float *values;               // sampling_count()
    struct sampling_tails tails; // where they are wanted: their values
};

/// So many lanes that they are whole vectors and whole rounds of channels, of a tensor of n values;
/// 0: there are too many.
uint32_t observe_lanes(uint32_t n_channels, uint64_t n);

/// How much room to work in a look at n values needs, aligned to 64 bytes.
uint64_t observe_room(uint64_t n);

// A look may go on while its values are written, so that they are still in the first cache. What it
// gives does not depend on that.

/// Begins; of `o` the memory is taken that it has for what will be told. `s`, `x`, `room` stay.
void observe_begin(const struct observe_shape *s, const float *x, void *room,
                   const struct observed *o);

/// The first n values are written. Returns how many are to be before more is looked at.
uint64_t observe_go_on(void *room, uint64_t n);

/// All are. With n_bad the bounds alone are told.
void observe_end(void *room, struct observed *o);
