// The float model with nodes that look at its tensors where they are computed, on servers that have
// such nodes (tensor/observe/observation.h). What they saw is the model's only output.
#pragma once

#include "quant/quant.h"

struct quant_watched {
    uint32_t n;
    uint32_t *edges; // that are looked at, in the order of the output
};

/// Which edges are to be looked at. quant_watched_done() also after a failure.
int quant_watch_plan(const struct rknnd_quant *q, struct quant_watched *w, struct error *e);
void quant_watched_done(struct quant_watched *w);

/// The model with the nodes, which hand over about `most` values of each tensor; 0: histograms of
/// all. quant_model_done() also after a failure.
int quant_watch_make(const struct rknnd_quant *q, const struct quant_watched *w, uint32_t most,
                     struct quant_model *ret, struct error *e);

/// Whether histograms decide ranges, and so need many values, and tails, whose clipping costs most.
/// To `normal`, which does not clip, they only tell errors.
static inline bool quant_watch_decides(const struct rknnd_quant *q)
{
    return q->algorithm != QUANT_ALGORITHM_NORMAL;
}

/// Whether means of a tensor's channels are wanted: biases are corrected by those of products'
/// inputs.
bool quant_watch_has_means(const struct rknnd_quant *q, const struct quant_edge *edge);

// What runs gave out: n words of each sample, one after the other.
struct quant_watched_words {
    const int32_t *words;
    uint64_t n;
    uint32_t n_samples; // QUANT_MOST_GROUP at most
};

// Values that are not finite.
struct quant_watched_bad {
    int32_t edge; // -1: there are none
    uint32_t sample;
};

/// Adds that to `seen`, of each edge: as it would be added sample by sample. On failure *ret_bad
/// tells of values that are not finite, if that is it.
int quant_watch_take(const struct rknnd_quant *q, const struct quant_watched *w,
                     const struct quant_watched_words *words, struct observer *seen,
                     struct quant_watched_bad *ret_bad, struct error *e);
