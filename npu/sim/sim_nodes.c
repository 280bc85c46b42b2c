// A graph of one node for each: the tensors are those of the whole graph, which each plan places
// anew.
#include "npu/sim/sim_nodes.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/sim_custom.h"

struct sim_node {
    struct graph graph;
    struct plan plan;
    bool planned;
};

struct sim_node_run {
    struct run run;
};

void sim_node_free(struct sim_node *n)
{
    if (!n)
        return;
    if (n->planned)
        plan_done(&n->plan);
    pool_done(&n->graph.pool);
    free(n);
}

CLEANUP_DEFINE(struct sim_node, sim_node_free)

// The file's places are for whole graphs.
static int copy_tensors(struct graph *ret, const struct graph *g, struct error *e)
{
    ret->tensors = pool_alloc(&ret->pool, g->n_tensors, sizeof *ret->tensors);
    if (!ret->tensors)
        return error_no_memory(e, "a node", g->n_tensors * sizeof *ret->tensors);
    ret->n_tensors = g->n_tensors;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        ret->tensors[i] = g->tensors[i];
        ret->tensors[i].arena_offset = GRAPH_NO_OFFSET;
    }
    return 0;
}

// A list of the tensors that are there and not constant, each once.
static int list_ends(struct graph *g, const int32_t *tensors, uint32_t n, const uint32_t **ret,
                     uint32_t *ret_n, struct error *e)
{
    uint32_t *list = pool_alloc(&g->pool, n, sizeof *list), count = 0;
    if (!list)
        return error_no_memory(e, "a node", n * sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        bool there = tensors[i] >= 0 && !g->tensors[tensors[i]].constant;
        for (uint32_t k = 0; k < count && there; k++)
            there = list[k] != (uint32_t)tensors[i];
        if (there)
            list[count++] = (uint32_t)tensors[i];
    }
    *ret = list;
    *ret_n = count;
    return 0;
}

int sim_node_new(const struct graph *g, uint32_t node, struct sim_node **ret, struct error *e)
{
    cleanup(sim_node_free_p) struct sim_node *n = calloc(1, sizeof *n);
    if (!n)
        return error_no_memory(e, "a node", sizeof *n);
    struct graph_node *only = &g->nodes[node];
    struct graph *one = &n->graph;
    one->n_nodes = 1;
    one->nodes = only;
    int s = copy_tensors(one, g, e);
    if (s == 0)
        s = list_ends(one, only->inputs, only->n_inputs, &one->inputs, &one->n_inputs, e);
    if (s == 0)
        s = list_ends(one, only->outputs, only->n_outputs, &one->outputs, &one->n_outputs, e);
    if (s == 0)
        s = plan_init(&n->plan, one, e);
    if (s < 0)
        return s;
    n->planned = true;
    *ret = steal_ptr(n);
    return 0;
}

int sim_node_run_new(const struct sim_node *n, struct sim_node_run **ret, struct error *e)
{
    cleanup(free_p) struct sim_node_run *r = calloc(1, sizeof *r);
    if (!r)
        return error_no_memory(e, "a node", sizeof *r);
    int s = run_init(&r->run, &n->plan, e);
    if (s < 0)
        return s;
    *ret = steal_ptr(r);
    return 0;
}

void sim_node_run_free(struct sim_node_run *r)
{
    if (r)
        run_done(&r->run);
    free(r);
}

void *sim_node_tensor(const struct sim_node_run *r, uint32_t tensor)
{
    return run_tensor(&r->run, tensor);
}

int sim_node_compute(struct sim_node_run *r, struct npu_custom *custom, struct error *e)
{
    r->run.before = (struct run_hook){custom ? sim_custom : NULL, custom};
    return run_steps(&r->run, e);
}
