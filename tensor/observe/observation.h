// What an observer has seen, as words of 32 bits: so a node that looks at a tensor (Observe, which
// the software NPU has beside ONNX's) gives it out. A number of 64 bits is two words, the lower one
// first.
//
//     min, max (floats)   n (2 words)   n_bad   exponent   n_channels   n_bins
//     n_values   stride   of both tails: length + 65536 * level, and room   0
//     sums of channels (doubles)        counts of bins: all, or none    values (floats)    tails
//
// Values are those that are to be counted, where no bins are (tensor/observe/sampling.h): of few it
// is less work to hand them over. Each stands for `stride` values. Where that is not 1 there may be
// room for both tails behind them.
#pragma once

#include "tensor/observe/observer.h"
#include "tensor/observe/sampling.h"

#define OBSERVATION_HEAD 14

// What an observation has besides bounds.
struct observation_form {
    uint32_t n_channels;
    bool bins;
    uint32_t stride; // 0: no values
    uint32_t n_values;
    uint32_t n_tails; // room for both
};

/// Of a tensor of n values, below 2^32. `stride` 0: no values.
struct observation_form observation_form_of(uint64_t n, uint32_t n_channels, uint32_t stride,
                                            bool tails);

static inline uint64_t observation_words(struct observation_form f)
{
    return OBSERVATION_HEAD + 2 * (uint64_t)f.n_channels + (f.bins ? OBSERVER_BINS : 0) +
           f.n_values + f.n_tails;
}

/// How many channels the first of n words say, as far as n words can have their sums; 0: none.
uint32_t observation_channels(const int32_t *words, uint64_t n);

/// Where an observation of this form has its values, and its tails.
static inline float *observation_values(struct observation_form f, int32_t *words)
{
    return (float *)(words + observation_words(f) - f.n_tails - f.n_values);
}
static inline float *observation_tail_values(struct observation_form f, int32_t *words)
{
    return (float *)(words + observation_words(f) - f.n_tails);
}

/// `o`: all but its bins, which are `counts` (NULL: there are none). Values, and tails' (NULL:
/// there are none), the caller puts.
void observation_put(struct observation_form f, const struct observer *o, const uint32_t *counts,
                     const struct sampling_tails *t, int32_t *words);

/// Adds to `o` what the first of n words say; *ret_taken: how many these are. Refuses words that
/// are none, or of another number of channels.
int observation_take(struct observer *o, const int32_t *words, uint64_t n, uint64_t *ret_taken,
                     struct error *e);
