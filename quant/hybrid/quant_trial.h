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
};

/// Runs the float model, which stays open. `samples` outlive it; quant_trial_done() also after a
/// failure.
int quant_trial_begin(struct quant_trial *t, const struct rknnd_quant *q,
                      const rknnd_quant_samples *samples, uint32_t n_samples, struct error *e);
void quant_trial_done(struct quant_trial *t);

// How near outputs are to the float model's; each output of each sample counts by itself.
struct quant_nearness {
    double least, mean; // cosines
    double error;       // the mean of (differences' squares / the float model's values' squares)
};

/// Whether `a` is as near as `b` or nearer, by each of the three.
bool quant_nearness_reaches(struct quant_nearness a, struct quant_nearness b);

/// Runs the model as `q` has it planned now on up to so many of the samples, spread over them.
/// n_clients, 1 at least: that run samples at the same time. From several threads, each with a `q`
/// of its own.
int quant_trial_run(const struct quant_trial *t, struct rknnd_quant *q, uint32_t n_clients,
                    uint32_t most_samples, struct quant_nearness *ret, struct error *e);
