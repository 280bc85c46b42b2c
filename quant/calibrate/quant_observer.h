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

#define QUANT_SIDE   2048 // bins on each side of 0
#define QUANT_BINS   (2 * QUANT_SIDE)
#define QUANT_FINEST (-120) // least exponent

struct quant_observer {
    float min, max; // of finite values; max < min: there was none
    uint64_t n;     // values
    uint64_t n_bad; // that are no finite numbers; they are in nothing else
    int32_t exponent;
    uint32_t n_channels; // 0: sums are not kept
    double *sums;        // of each channel
    uint64_t *bins;
};

/// n_channels 0: no sums.
int quant_observer_init(struct quant_observer *o, uint32_t n_channels, struct error *e);
void quant_observer_done(struct quant_observer *o);

// Room that adding works in, for one thread.
struct quant_scratch {
    uint32_t bins[4][QUANT_BINS];
    uint16_t index[4096];
};

/// Adds values. `inner`: how many elements lie between two of neighbouring channels (images in
/// planes: height * width; 1: channels innermost).
void quant_observer_add(struct quant_observer *o, const float *values, uint64_t n, uint64_t inner,
                        struct quant_scratch *scratch);

/// Adds what another one has seen.
void quant_observer_merge(struct quant_observer *o, const struct quant_observer *other);
