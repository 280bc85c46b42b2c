// A graph made ready to run, as its operators see it: steps with their kernels, the plan that they
// belong to, and the memory in which one context runs it. plan.h makes plans, run.h runs them.
#pragma once

#include <stdatomic.h>

#include "npu/model/graph.h"

#define STEP_MAX_ARGS  8
#define STEP_ALIGNMENT 64 // of the arena, of scratch memory and of every tensor in them

struct npu_slices;
struct run;
struct step;

// One operator of the executor.
struct op {
    /// Checks shapes and types (they come from a file), makes kernels, says how much scratch memory
    /// a run needs. Memory comes from the plan's pool. Refuses what it would not compute correctly.
    int (*prepare)(struct step *s, struct error *e);
    /// Computes the outputs. Called by several contexts at once, each with a run of its own.
    int (*run)(const struct step *s, struct run *r, struct error *e);
    /// Frees what a step's state holds besides memory of the plan. NULL: nothing. Called once for
    /// each step that has a state, when no run uses the plan any more.
    void (*done)(struct step *s);
    /// Of an operator that looks at its first input: n elements of it, in memory's order, were
    /// written by the step before, which still works. That tells it by run_wrote(), or does not;
    /// run() follows. NULL: it does not.
    void (*watch)(const struct step *s, struct run *r, uint64_t n);
    bool in_place;    // the output may have exactly the bytes of an input
    bool on_constant; // input 0 may be a constant; else that is refused before prepare()
};

struct step {
    struct plan *plan;
    const struct op *op;
    const struct graph_node *node;
    void *state;
    const char *unread;         // why its register program does it; NULL: that does not
    uint64_t scratch;           // bytes
    const struct step *watcher; // the next step, which looks at what this one writes; NULL: none
    bool output_is_scratch;     // of a part of a step: it is at output_at in scratch memory
    uint64_t output_at;
};

struct plan {
    const struct graph *graph;
    struct pool pool;
    uint64_t memory_limit; // of the pool: what the model's constants can reasonably need
    uint32_t n_steps;
    struct step *steps;
    uint64_t *offsets; // of each tensor, in the arena
    uint64_t arena_size, scratch_size;
    struct dnn_calls *calls;
};

// Called for each step of a run. NULL call: nothing is.
struct run_hook {
    /// 0, 1 where the hook says so, or negative: the run ends with this status.
    int (*call)(void *user, const struct run *r, const struct step *s, struct error *e);
    void *user;
};

// The memory in which one context runs a plan.
struct run {
    const struct plan *plan;
    uint8_t *arena, *scratch;
    uint8_t *own; // the arena, unless run_place() has put it elsewhere
    struct dnn_bound *bound;
    uint64_t *step_us;          // of the last run; NULL: not wanted
    struct run_hook before;     // 1: it has computed the step itself
    struct run_hook after;      // may look at the outputs, and change them
    const atomic_bool *stop;    // true: the run may end early, as npu_job's; NULL: never
    struct npu_slices *slices;  // as npu_job's; NULL: none
    uint64_t waited_us;         // of the last run, between slices
    const struct step *watcher; // of what the present step writes; NULL: none
    const struct step *watched; // the one that has begun to, in this run
    uint64_t watched_next;      // elements that are written before it looks again
};

// ---- for operators, while they prepare ----

/// The step before, if it makes the first input of `s`, and operators of `s` watch; NULL: not.
const struct step *step_before(const struct step *s);

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

// ---- for operators, while they run ----

/// The memory of a tensor that is not constant.
void *run_tensor(const struct run *r, uint32_t index);

/// Memory of the step's inputs (constants as the file holds them) and outputs.
const void *run_input(const struct step *s, const struct run *r, uint32_t i);
void *run_output(const struct step *s, const struct run *r, uint32_t i);
void *run_scratch(const struct run *r, uint64_t at);

/// The first n elements of the step's output 0, in memory's order, have their values and are in the
/// cache still. Chunks of some thousand elements are best.
static inline void run_wrote(struct run *r, uint64_t n)
{
    if (r->watcher && n >= r->watched_next)
        r->watcher->op->watch(r->watcher, r, n);
}
