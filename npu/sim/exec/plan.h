// A graph made ready to run: steps with their kernels, weights in the kernels' form, and one memory
// plan. A plan is never changed by running; each context runs it in memory of its own.
#pragma once

#include <dnnl.h>

#include "npu/model/graph.h"
#include "npu/npu.h"

#define STEP_MAX_ARGS 8

struct plan;
struct run;
struct step;

// One operator of the executor.
struct op {
    /// Checks shapes and types (they come from a file), makes kernels, says how much scratch memory
    /// a run needs. Memory comes from the plan's pool. Refuses what it would not compute correctly.
    int (*prepare)(struct step *s, struct error *e);
    int (*run)(const struct step *s, struct run *r, struct error *e);
    bool in_place; // the output may lie exactly where an input lies
};

struct step {
    struct plan *plan;
    const struct op *op;
    const struct graph_node *node;
    void *state;
    uint64_t scratch; // bytes
};

struct plan {
    const struct graph *graph;
    struct pool pool;
    uint64_t memory_limit; // of the pool: what the model's constants can reasonably need
    uint32_t n_steps;
    struct step *steps;
    uint64_t *places; // of each tensor, in the arena
    uint64_t arena_size, scratch_size;
    struct dnn_calls *calls;
};

/// Compiles. The graph, and what it points into, must outlive the plan. On failure p is empty.
int plan_init(struct plan *p, const struct graph *g, struct error *e);
void plan_done(struct plan *p);

// ---- for operators, while they prepare ----

/// Tensors of the step's node; NULL: there is none.
const struct graph_tensor *step_input(const struct step *s, uint32_t i);
const struct graph_tensor *step_output(const struct step *s, uint32_t i);

/// Reserves scratch memory, aligned to 64 bytes; *ret_at is for run_scratch().
int step_scratch(struct step *s, uint64_t size, uint64_t *ret_at, struct error *e);

/// Zeroed memory that lives as long as the plan. NULL: there is none, or the plan has more than its
/// limit already.
void *step_alloc(struct step *s, size_t n, size_t size);

/// A constant input as real numbers, in memory of the plan.
int step_floats(struct step *s, const struct graph_tensor *t, float **ret, struct error *e);

#define step_refuse(s, e, ...) graph_refuse((s)->node, e, __VA_ARGS__)

// ---- running ----

// The memory in which one context runs a plan.
struct run {
    const struct plan *plan;
    uint8_t *arena, *scratch;
    uint8_t *own; // the arena, unless run_place() has put it elsewhere
    struct dnn_bound *bound;
    uint64_t *step_us;         // of the last run; NULL: not wanted
    struct npu_tap *tap;       // looks at what steps compute; NULL: nobody does
    struct npu_custom *custom; // computes some nodes; NULL: none
    const atomic_bool *stop;   // as npu_job's
};

int run_init(struct run *r, const struct plan *p, struct error *e);
void run_done(struct run *r);

/// Puts the arena of the next runs into other memory (plan.arena_size bytes, aligned to 64), whose
/// contents do not matter; NULL: into memory of its own. On failure it stays where it is.
int run_place(struct run *r, void *memory, struct error *e);

/// Runs all steps; STATUS_FAIL if it is stopped between two of them.
int run_steps(struct run *r, struct error *e);

/// The memory of a tensor that is no constant.
void *run_tensor(const struct run *r, uint32_t index);

/// Memory of the step's inputs (constants as the file holds them) and outputs.
const void *run_input(const struct step *s, const struct run *r, uint32_t i);
void *run_output(const struct step *s, const struct run *r, uint32_t i);
void *run_scratch(const struct run *r, uint64_t at);
