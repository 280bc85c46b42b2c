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

/// Adds a run's output to `seen`, of each edge. On failure *ret_bad is the edge whose values are
/// not finite, or -1.
int quant_watch_take(const struct rknnd_quant *q, const struct quant_watched *w,
                     const int32_t *words, uint64_t n, struct observer *seen, int32_t *ret_bad,
                     struct error *e);
