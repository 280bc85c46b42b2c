// What an observer has seen, as words of 32 bits: so a node that looks at a tensor (Observe, which
// the software NPU has beside ONNX's) gives it out. A number of 64 bits is two words, the lower one
// first.
//
//     min, max (floats)   n (2 words)   n_bad   exponent   n_channels   n_bins
//     sums of channels (doubles)        counts of bins: all, or none
#pragma once

#include "tensor/observe/observer.h"

#define OBSERVATION_HEAD 8

static inline uint64_t observation_words(uint32_t n_channels, bool bins)
{
    return OBSERVATION_HEAD + 2 * (uint64_t)n_channels + (bins ? OBSERVER_BINS : 0);
}

/// How many channels the first of n words say, as far as n words can have their sums; 0: none.
uint32_t observation_channels(const int32_t *words, uint64_t n);

/// Counts fit: a tensor has fewer than 2^32 elements.
void observation_put(const struct observer *o, int32_t *words);

/// Adds to `o` what the first of n words say. Returns how many these are; 0: they are none, or of
/// another number of channels.
uint64_t observation_take(struct observer *o, const int32_t *words, uint64_t n);
