// The last job's inputs and outputs, so that an equal one can be answered without computing.
#pragma once

#include "npu/npu.h"

// Embedded; zeroed is empty. One thread at a time.
struct result_cache {
    struct npu_input *inputs;   // of the job; their data are in `block`
    struct convert_form *forms; // of outputs that have one
    struct npu_output *outputs; // likewise; where data is NULL, the job did not want it
    uint32_t n_inputs, n_outputs;
    uint8_t *block;
};

void result_cache_done(struct result_cache *c);

/// Fills the outputs of a job whose inputs are those in the cache. False: it cannot.
bool result_cache_answer(const struct result_cache *c, const struct npu_job *job);

/// Remembers a job that has run; forgets the one before. Without memory it remembers nothing.
void result_cache_keep(struct result_cache *c, const struct npu_job *job, uint32_t n_inputs,
                       uint32_t n_outputs);
