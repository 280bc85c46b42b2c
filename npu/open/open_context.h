// What one context of a model has: an arena, the programs for it, and memory for the nodes that a
// CPU computes.
#pragma once

#include "npu/open/open_model.h"

// Whether commands have the chip take 128 off of an input's bytes, beyond what the file says.
enum direct_flip {
    DIRECT_AS_FILE,
    DIRECT_FLIPPED,
    DIRECT_UNKNOWN, // some of them do
};

// Where an input or output is that may lie in a program's memory (npu/open/direct).
struct direct_place {
    const struct import *import; // NULL: in the arena
    uint64_t offset;             // there
    uint64_t step;               // to the next part of a batch
    uint64_t address;            // that commands have now
    enum direct_flip flip;       // likewise
    const char *said;            // why it is copied, as that was last logged; only compared
};

// Where intermediate results are: in the context's own memory, or in a program's.
struct open_arena {
    struct provider_memory *memory;
    uint64_t offset;  // there
    uint64_t address; // that commands have now
};

// What a program brought for them.
struct open_internal {
    const struct npu_buffer *buffer; // NULL: none that the NPU could have
    uint64_t offset, size;
    bool given;
    const char *said; // why it is not used, as that was last logged; only compared
};

struct npu_context {
    const struct npu_model *model;
    struct provider_memory *own; // NULL: intermediate results are in a program's memory
    struct provider_memory *commands, *tasks;
    struct open_arena arena;
    struct open_internal internal;
    struct direct_place *places; // of inputs, then outputs
    struct sim_node_run **runs;  // of each node; NULL: none
    void *dense;                 // room for the largest tensor, packed
    struct npu_layer *layers;    // of the last measured run
    size_t n_layers;
    struct pool texts; // of the layers
};

/// Bytes that one takes: its arena, and the commands and tasks with its addresses.
uint64_t open_context_size(const struct npu_model *m);

int open_context_new(const struct npu_model *m, struct npu_context **ret, struct error *e);
void open_context_free(struct npu_context *c);

/// Has intermediate results where the program wants them, before each job.
int open_context_place(struct npu_context *c, struct error *e);

static inline uint8_t *open_context_map(const struct npu_context *c, uint64_t at)
{
    return c->arena.memory->map + c->arena.offset + at;
}

static inline uint64_t open_context_address(const struct npu_context *c, uint64_t at)
{
    return c->arena.address + at;
}

/// Copies a part of the arena: from here to the NPU, or back.
int open_context_sync(struct npu_context *c, uint64_t offset, uint64_t size, enum provider_way way,
                      struct error *e);
