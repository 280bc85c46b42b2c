// A model in one set of its inputs' shapes (a model of fixed shapes has one), and a context's
// memory for it.
//
// Every set's graph is there from loading on, so that what cannot be computed is refused then; of
// the plans, which hold the weights in the kernels' form, only those that contexts use, and some
// that they have used.
#pragma once

#include <pthread.h>

#include "npu/npu.h"
#include "npu/sim/cost/estimate_graph.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/result_cache.h"
#include "tensor/chip.h"

struct sim_shape_set {
    struct graph graph;
    struct npu_layer *layers;          // of each node, in the graph's pool
    double chip_us[NPU_MAX_CORES + 1]; // of a job on the chip, by its number of cores
    uint32_t n_unestimated;            // layers that these leave out
    uint64_t arena_size;               // of a run
    uint64_t use_size;                 // bytes of a sim_use, most of them the arena
    uint64_t plan_size;                // bytes that are its own
    struct estimate_memory memory;
    bool keeps;           // its plan, whoever uses it
    pthread_mutex_t lock; // of what follows
    bool planned;
    struct plan plan;
    uint32_t n_uses;   // of contexts, that have the plan
    uint64_t last_use; // by a counter of all sets; when the last of them ended
};

// A context's part. Zeroed: not used yet.
struct sim_use {
    struct sim_shape_set *set; // that it is counted in
    struct run run;
    uint64_t *step_us;
    struct npu_layer *layers;
    struct result_cache cache; // in paced mode
    uint64_t last_run;         // the owner's; the use that ran longest ago goes first
};

/// Takes over `graph`, also on failure: the set is then empty. Refuses what cannot be run,
/// describes its inputs and outputs, and keeps the plan only with `keep`.
int sim_shape_set_init(struct sim_shape_set *set, const struct graph *graph,
                       const struct chip *chip, bool keep, struct tensor_io *inputs,
                       struct tensor_io *outputs, struct error *e);
void sim_shape_set_done(struct sim_shape_set *set); // zeroed is fine

/// Makes the plan, if need be, and the context's memory for it. Any thread; `use` is the caller's.
int sim_use_begin(struct sim_use *use, struct sim_shape_set *set, struct error *e);
void sim_use_done(struct sim_use *use);

/// Of the plans that no context has, those that were used last stay, of `most` bytes together. Any
/// thread; waits for none that makes a plan.
void sim_shape_sets_trim(struct sim_shape_set *sets, uint32_t n, uint64_t most);
