// Rows of shapes.
#include "npu/sim/sim_shape_set.h"

#include <stdlib.h>

#include "npu/sim/exec/plan.h"
#include "npu/sim/sim_io.h"
#include "npu/sim/sim_layers.h"

static int describe(const struct sim_row *r, const struct chip *chip, struct tensor_io *inputs,
                    struct tensor_io *outputs, struct error *e)
{
    const struct graph *g = &r->graph;
    int s = 0;
    for (uint32_t i = 0; i < g->n_inputs && s == 0; i++)
        s = sim_describe_input(g, chip, i, &inputs[i], e);
    for (uint32_t i = 0; i < g->n_outputs && s == 0; i++)
        s = sim_describe_output(g, chip, i, &outputs[i], e);
    return s;
}

static int estimate(struct sim_row *r, const struct chip *chip, struct error *e)
{
    int s = sim_layers(&r->graph, chip, &r->graph.pool, &r->layers, e);
    for (uint32_t n = 1; n <= NPU_MAX_CORES && s == 0; n++)
        r->chip_us[n] = estimate_graph_us(&r->graph, chip, n);
    for (uint32_t i = 0; i < r->graph.n_nodes && s == 0; i++)
        r->n_unestimated += r->layers[i].total_cycles == 0;
    return s < 0 ? s : estimate_memory(&r->graph, chip, &r->memory, e);
}

static int make_plan(struct sim_row *r, struct error *e)
{
    int s = plan_init(&r->plan, &r->graph, e);
    r->planned = s == 0;
    return s;
}

int sim_row_init(struct sim_row *r, const struct graph *graph, const struct chip *chip, bool keep,
                 struct tensor_io *inputs, struct tensor_io *outputs, struct error *e)
{
    *r = (struct sim_row){.graph = *graph, .lock = PTHREAD_MUTEX_INITIALIZER};
    int s = make_plan(r, e);
    r->arena_size = r->plan.arena_size;
    if (s == 0)
        s = describe(r, chip, inputs, outputs, e);
    if (s == 0)
        s = estimate(r, chip, e);
    if (r->planned && !keep) {
        plan_done(&r->plan);
        r->planned = false;
    }
    if (s < 0)
        sim_row_done(r);
    return s;
}

void sim_row_done(struct sim_row *r)
{
    if (r->planned)
        plan_done(&r->plan);
    graph_done(&r->graph);
    *r = (struct sim_row){0};
}

// ---- a context's part ----

static int begin(struct sim_use *use, const struct plan *plan, struct error *e)
{
    size_t n = (size_t)plan->n_steps + 1;
    use->step_us = calloc(n, sizeof *use->step_us);
    use->layers = calloc(n, sizeof *use->layers);
    if (!use->step_us || !use->layers)
        return error_no_memory(e, "a context", n * sizeof *use->layers);
    return run_init(&use->run, plan, e);
}

int sim_use_begin(struct sim_use *use, struct sim_row *r, struct error *e)
{
    if (use->run.plan)
        return 0;
    pthread_mutex_lock(&r->lock);
    int s = r->planned ? 0 : make_plan(r, e);
    pthread_mutex_unlock(&r->lock);
    if (s == 0)
        s = begin(use, &r->plan, e);
    if (s < 0)
        sim_use_done(use);
    return s;
}

void sim_use_done(struct sim_use *use)
{
    run_done(&use->run);
    memo_done(&use->memo);
    free(use->step_us);
    free(use->layers);
    *use = (struct sim_use){0};
}
