// Runs the float model and models in 8 bits on the same samples, and compares what comes out.
#pragma once

#include "quant/quant.h"

struct quant_trial {
    struct rknnd_quant *q;
    const rknnd_quant_samples *samples;
    uint32_t n_samples; // that are run
    uint32_t n_outputs;
    float **wanted;  // of sample * n_outputs + output: the float model's
    uint32_t *sizes; // their elements
};

/// Runs the float model. `samples` and `q` outlive it; quant_trial_done() also after a failure.
int quant_trial_begin(struct quant_trial *t, struct rknnd_quant *q,
                      const rknnd_quant_samples *samples, uint32_t n_samples, struct error *e);
void quant_trial_done(struct quant_trial *t);

/// Runs the model as it is planned now. *ret: the least cosine of an output of a sample.
int quant_trial_run(const struct quant_trial *t, double *ret, struct error *e);
