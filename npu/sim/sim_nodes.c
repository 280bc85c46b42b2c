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

// Tensors that a node takes or gives.
struct ends {
    uint32_t *list, n;
};

// Lists a tensor that is there and not constant, once.
static void add_end(struct ends *to, const struct graph *g, int32_t tensor)
{
    bool there = tensor >= 0 && !g->tensors[tensor].constant;
    for (uint32_t k = 0; k < to->n && there; k++)
        there = to->list[k] != (uint32_t)tensor;
    if (there)
        to->list[to->n++] = (uint32_t)tensor;
}

// What is added behind the node's operator is an input, too.
static int list_ends(struct graph *g, const struct graph_node *n, struct error *e)
{
    struct ends in = {.list = pool_alloc(&g->pool, n->n_inputs + GRAPH_MAX_POST, sizeof *in.list)};
    struct ends out = {.list = pool_alloc(&g->pool, n->n_outputs, sizeof *out.list)};
    if (!in.list || !out.list)
        return error_no_memory(e, "a node", 0);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        add_end(&in, g, n->inputs[i]);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            add_end(&in, g, n->post[i].operand);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        add_end(&out, g, n->outputs[i]);
    g->inputs = in.list;
    g->n_inputs = in.n;
    g->outputs = out.list;
    g->n_outputs = out.n;
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
        s = list_ends(one, only, e);
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
