// Shape sets: loading one, planning it on first use, and a context's memory for it.
//
// sim_shape_set_init: graph -> plan (proof that it runs) -> attributes -> estimates -> plan dropped
// sim_use_begin:      plan again, once for all contexts, under the lock -> arena, layer times
// sim_shape_sets_trim: what no context uses any more goes, but for some
//
// A plan holds the weights in the kernels' layout, often larger than the file: dropping it keeps a
// model with many shape sets small until a program chooses one, and when it has gone through all.
#include "npu/sim/sim_shape_set.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "npu/sim/exec/plan.h"
#include "npu/sim/sim_io.h"
#include "npu/sim/sim_layers.h"

static int shape_set_describe(const struct sim_shape_set *set, const struct chip *chip,
                              struct tensor_io *inputs, struct tensor_io *outputs, struct error *e)
{
    const struct graph *g = &set->graph;
    int s = 0;
    for (uint32_t i = 0; i < g->n_inputs && s == 0; i++)
        s = sim_describe_input(g, chip, i, &inputs[i], e);
    for (uint32_t i = 0; i < g->n_outputs && s == 0; i++)
        s = sim_describe_output(g, chip, i, &outputs[i], e);
    return s;
}

// Layers, time on the chip for each number of cores, and memory, by the cost model of `chip`.
static int shape_set_estimate(struct sim_shape_set *set, const struct chip *chip, struct error *e)
{
    int s = sim_layers(&set->graph, chip, &set->graph.pool, &set->layers, e);
    for (uint32_t n = 1; n <= NPU_MAX_CORES && s == 0; n++)
        set->chip_us[n] = estimate_graph_us(&set->graph, chip, n);
    for (uint32_t i = 0; i < set->graph.n_nodes && s == 0; i++)
        set->n_unestimated += set->layers[i].total_cycles == 0;
    return s < 0 ? s : estimate_memory(&set->graph, chip, &set->memory, e);
}

static int shape_set_plan(struct sim_shape_set *set, struct error *e)
{
    int s = plan_init(&set->plan, &set->graph, e);
    set->planned = s == 0;
    return s;
}

int sim_shape_set_init(struct sim_shape_set *set, const struct graph *graph,
                       const struct chip *chip, bool keep, struct tensor_io *inputs,
                       struct tensor_io *outputs, struct error *e)
{
    *set =
        (struct sim_shape_set){.graph = *graph, .lock = PTHREAD_MUTEX_INITIALIZER, .keeps = keep};
    int s = shape_set_plan(set, e);
    set->arena_size = set->plan.arena_size;
    set->plan_size = set->plan.pool.total;
    set->use_size = run_size(&set->plan) + set->plan.n_steps * sizeof(struct npu_layer);
    if (s == 0)
        s = shape_set_describe(set, chip, inputs, outputs, e);
    if (s == 0)
        s = shape_set_estimate(set, chip, e);
    if (set->planned && !keep) {
        plan_done(&set->plan);
        set->planned = false;
    }
    if (s < 0)
        sim_shape_set_done(set);
    return s;
}

void sim_shape_set_done(struct sim_shape_set *set)
{
    if (set->planned)
        plan_done(&set->plan);
    graph_done(&set->graph);
    *set = (struct sim_shape_set){0};
}

// ---- a context's part ----

// One extra element, so that an empty graph does not ask calloc for nothing.
static int use_init(struct sim_use *use, const struct plan *plan, struct error *e)
{
    size_t n = (size_t)plan->n_steps + 1;
    use->step_us = calloc(n, sizeof *use->step_us);
    use->layers = calloc(n, sizeof *use->layers);
    if (!use->step_us || !use->layers)
        return error_no_memory(e, "a context", n * sizeof *use->layers);
    return run_init(&use->run, plan, e);
}

// The lock makes one of several contexts compile the plan while the others wait; after that the
// plan is only read, so it is used without the lock.
int sim_use_begin(struct sim_use *use, struct sim_shape_set *set, struct error *e)
{
    if (use->run.plan)
        return 0;
    pthread_mutex_lock(&set->lock);
    int s = set->planned ? 0 : shape_set_plan(set, e);
    set->n_uses += s == 0;
    pthread_mutex_unlock(&set->lock);
    if (s == 0) {
        use->set = set;
        s = use_init(use, &set->plan, e);
    }
    if (s < 0)
        sim_use_done(use);
    return s;
}

static void plan_let_go(struct sim_shape_set *set)
{
    static _Atomic uint64_t counter;
    pthread_mutex_lock(&set->lock);
    set->n_uses--;
    set->last_use = atomic_fetch_add(&counter, 1) + 1;
    pthread_mutex_unlock(&set->lock);
}

void sim_use_done(struct sim_use *use)
{
    run_done(&use->run);
    result_cache_done(&use->cache);
    free(use->step_us);
    free(use->layers);
    if (use->set)
        plan_let_go(use->set);
    *use = (struct sim_use){0};
}

// ---- plans that nobody uses ----

// Since when, by the counter of uses that ended; 0: somebody uses it, or it is not there.
static uint64_t idle_since(struct sim_shape_set *set)
{
    if (set->keeps || pthread_mutex_trylock(&set->lock) != 0)
        return 0;
    uint64_t since = set->planned && set->n_uses == 0 ? set->last_use : 0;
    pthread_mutex_unlock(&set->lock);
    return since;
}

static void drop_idle(struct sim_shape_set *set)
{
    pthread_mutex_lock(&set->lock);
    if (set->planned && set->n_uses == 0) {
        plan_done(&set->plan);
        set->planned = false;
    }
    pthread_mutex_unlock(&set->lock);
}

void sim_shape_sets_trim(struct sim_shape_set *sets, uint32_t n, uint64_t most)
{
    for (;;) {
        struct sim_shape_set *oldest = NULL;
        uint64_t sum = 0, first = UINT64_MAX;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t since = idle_since(&sets[i]);
            sum += since ? sets[i].plan_size : 0;
            if (since && since < first) {
                first = since;
                oldest = &sets[i];
            }
        }
        if (!oldest || sum <= most)
            return;
        drop_idle(oldest);
    }
}
