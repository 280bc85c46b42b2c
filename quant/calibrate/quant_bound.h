// Runs whose samples, and what comes out, lie in memory that the server maps, too: neither goes
// through a socket. Where a server is on another machine the client library copies them.
//
// Several samples go with one request, one behind the other: of a small net what a request costs is
// much of what a run takes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rknn_api.h"

#define QUANT_MOST_GROUP 16 // samples of a request

struct quant_bound_input {
    rknn_tensor_mem *mem; // NULL: it is not bound
    rknn_tensor_attr attr;
    uint32_t size; // of a sample
    uint32_t room; // samples that the memory has room for
};

struct quant_bound {
    rknn_context context;
    uint32_t n_inputs;
    struct quant_bound_input *inputs;
    rknn_tensor_mem *output;
    uint32_t output_size; // of a sample
    int32_t *words;       // of the last request: samples one after the other
    uint32_t most;        // samples that may go together
    uint64_t took;        // ns that the last request took, for each sample
};

/// For a model with one output, whose inputs are those. On failure an RKNN code; nothing is to be
/// undone.
int quant_bound_init(struct quant_bound *b, rknn_context context, uint32_t n_inputs,
                     const rknn_tensor_attr *inputs);

/// Gives back the memory, before the context is destroyed. Nothing was bound: nothing happens.
void quant_bound_done(struct quant_bound *b);

/// How many samples the next request is best for: so that it is short for others, and what comes
/// out fits a cache.
uint32_t quant_bound_group(const struct quant_bound *b);

/// Puts a sample into place `at` of a request of several. False: its inputs cannot lie in memory.
/// The library is not asked for anything; nothing was run.
bool quant_bound_put(struct quant_bound *b, const rknn_input *inputs, uint32_t at);

/// Runs the first n places, n > 1. On failure they are to be run one by one, which then goes on for
/// all later ones.
int quant_bound_run_group(struct quant_bound *b, uint32_t n);

/// Runs a sample.
int quant_bound_run(struct quant_bound *b, rknn_input *inputs);

/// What came out of place `at` of the last request (0: of the only sample), *ret_n words, until the
/// next one.
const int32_t *quant_bound_words(const struct quant_bound *b, uint32_t at, uint64_t *ret_n);
