// Runs the float model and models in 8 bits on the same samples, and compares what comes out.
#pragma once

#include "quant/quant.h"

struct quant_trial {
    const rknnd_quant_samples *samples;
    rknn_context context; // of the float model, whose inputs the samples' reader may ask for
    bool open;
    uint32_t n_inputs;
    uint32_t n_samples; // that are run
    uint32_t n_outputs;
    float **wanted;  // of sample * n_outputs + output: the float model's
    uint32_t *sizes; // their elements
    uint32_t *order; // of samples, as quant_trial_order() has it
};

/// Runs the float model, which stays open; one that is being opened is waited for. `samples`
/// outlive it; quant_trial_done() also after a failure.
int quant_trial_begin(struct quant_trial *t, struct rknnd_quant *q,
                      const rknnd_quant_samples *samples, uint32_t n_samples, struct error *e);
void quant_trial_done(struct quant_trial *t);

// How near outputs are to the float model's; each output of each sample counts by itself.
struct quant_nearness {
    double least, mean; // cosines
    double error;       // the mean of (differences' squares / the float model's values' squares)
};

/// Whether `a` is as near as `b` or nearer, by each of the three.
bool quant_nearness_reaches(struct quant_nearness a, struct quant_nearness b);

// How a model is run.
struct quant_trial_run {
    uint32_t n_clients; // that run samples at the same time, 1 at least
    uint32_t n_samples; // at most, spread over those that there are
    // Below which no sample's cosine may lie: once one does, the rest is not run, and what is told
    // is of those that were. -INFINITY: all are run.
    double goal;
    double *leasts; // NULL, or room for the least cosine of each of quant_trial's samples
};

/// Runs the model as `q` has it planned now. From several threads, each with a `q` of its own.
int quant_trial_run(const struct quant_trial *t, struct rknnd_quant *q,
                    const struct quant_trial_run *how, struct quant_nearness *ret, struct error *e);

/// From now on runs of all samples begin with those of the least of these cosines: a model that
/// misses a goal mostly does so with them.
void quant_trial_order(struct quant_trial *t, const double *leasts);
