// The last job's inputs and outputs, so that an equal one can be answered without computing.
#pragma once

#include "npu/npu.h"

// Embedded; zeroed is empty. One thread at a time.
struct memo {
    struct npu_input *inputs;   // of the job; their data lie in `block`
    struct convert_form *forms; // of outputs that have one
    struct npu_output *outputs; // likewise; where data is NULL, the job did not want it
    uint32_t n_inputs, n_outputs;
    uint8_t *block;
};

void memo_done(struct memo *m);

/// Fills the outputs of a job whose inputs are those that the memo has. False: it cannot.
bool memo_answer(const struct memo *m, const struct npu_job *job);

/// Remembers a job that has run; forgets the one before. Without memory it remembers nothing.
void memo_keep(struct memo *m, const struct npu_job *job, uint32_t n_inputs, uint32_t n_outputs);
