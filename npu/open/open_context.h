// What one context of a model has: an arena, the programs for it, and memory for the nodes that a
// CPU computes.
#pragma once

#include "npu/open/open_model.h"

// Where an input or output is that may lie in a program's memory (npu/open/direct).
struct direct_place {
    const struct import *import; // NULL: in the arena
    uint64_t offset;             // there
    uint64_t address;            // that commands have now
    const char *said;            // why it is copied, as that was last logged; only compared
};

struct npu_context {
    const struct npu_model *model;
    struct provider_memory *arena, *commands, *tasks;
    struct direct_place *places; // of inputs, then outputs
    struct sim_node_run **runs;  // of each node; NULL: none
    void *dense;                 // room for the largest tensor, packed
    struct npu_layer *layers;    // of the last measured run
    size_t n_layers;
    struct pool texts; // of the layers
};

int open_context_new(const struct npu_model *m, struct npu_context **ret, struct error *e);
void open_context_free(struct npu_context *c);

/// Copies a part of the arena: from here to the NPU, or back.
int open_context_sync(struct npu_context *c, uint64_t offset, uint64_t size, enum provider_way way,
                      struct error *e);
