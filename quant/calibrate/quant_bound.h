// Runs whose samples, and what comes out, lie in memory that the server maps, too: neither goes
// through a socket. Where a server is on another machine the client library copies them.
#pragma once

#include <stdint.h>

#include "rknn_api.h"

struct quant_bound_input {
    rknn_tensor_mem *mem; // NULL: it is not bound
    rknn_tensor_attr attr;
};

struct quant_bound {
    rknn_context context;
    uint32_t n_inputs;
    struct quant_bound_input *inputs;
    rknn_tensor_mem *output;
    int32_t *words; // of the last run
};

/// For a model with one output, whose inputs are those. On failure an RKNN code; nothing is to be
/// undone.
int quant_bound_init(struct quant_bound *b, rknn_context context, uint32_t n_inputs,
                     const rknn_tensor_attr *inputs);

/// Gives back the memory, before the context is destroyed. Nothing was bound: nothing happens.
void quant_bound_done(struct quant_bound *b);

/// Runs a sample. What comes out is in *ret, *ret_n words, until the next run.
int quant_bound_run(struct quant_bound *b, rknn_input *inputs, const int32_t **ret,
                    uint64_t *ret_n);
