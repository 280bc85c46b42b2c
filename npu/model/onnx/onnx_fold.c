// Computes nodes of constants while a model is loaded (constant folding), by the executor that will
// run the rest: a folded model gives the same bits as one that is not. The node is run as a graph
// of its own. The total of such constants is bounded (ONNX_FOLDED_MAX), since a small file can ask
// for large ones.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"

struct fold {
    struct graph g;
    struct graph_node node;
    int32_t *inputs, *outputs;
    uint32_t *ports;
};

// A graph of this node alone, whose inputs are the constants.
static int make_graph(struct fold *f, const struct graph *from, const struct graph_node *n,
                      struct error *e)
{
    uint32_t n_all = n->n_inputs + n->n_outputs;
    struct graph *g = &f->g;
    g->tensors = pool_alloc(&g->pool, n_all, sizeof *g->tensors);
    f->inputs = pool_alloc(&g->pool, n_all, sizeof *f->inputs);
    f->ports = pool_alloc(&g->pool, n_all, sizeof *f->ports);
    if (!g->tensors || !f->inputs || !f->ports)
        return error_no_memory(e, "a constant", 0);
    f->outputs = f->inputs + n->n_inputs;
    f->node = *n;
    f->node.inputs = f->inputs;
    f->node.outputs = f->outputs;
    for (uint32_t i = 0; i < n_all; i++) {
        int32_t index = i < n->n_inputs ? n->inputs[i] : n->outputs[i - n->n_inputs];
        f->inputs[i] = index < 0 ? -1 : (int32_t)i;
        if (index >= 0)
            g->tensors[i] = from->tensors[index];
        // The first input moves, as operators expect it; others may have to be constants.
        if (i != 0 && i < n->n_inputs)
            continue;
        g->tensors[i].constant = false;
        g->tensors[i].channels_last = g->tensors[i].n_dims == 4;
    }
    g->n_tensors = n_all;
    g->nodes = &f->node;
    g->n_nodes = 1;
    g->inputs = f->ports;
    g->n_inputs = 1;
    return 0;
}

// Makes the node's outputs constants, whose elements are still to be computed.
static int take_outputs(struct onnx_lowering *l, const struct graph_node *n, void **results,
                        struct error *e)
{
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        if (n->outputs[i] < 0)
            continue;
        struct graph_tensor *t = &l->g->tensors[n->outputs[i]];
        results[i] = pool_alloc(&l->g->pool, t->size, 1);
        if (!results[i])
            return error_no_memory(e, "a constant", t->size);
        t->constant = true;
        t->channels_last = false;
        t->data = (struct bytes){results[i], t->size};
    }
    return 0;
}

// Everything temporary is in the small graph's pool, results are in the large one's.
static int compute(struct onnx_lowering *l, struct fold *f, const struct graph_node *n,
                   struct error *e)
{
    const struct bytes x = n->inputs[0] < 0 ? (struct bytes){0} : l->g->tensors[n->inputs[0]].data;
    int r = make_graph(f, l->g, n, e);
    void **results = pool_alloc(&f->g.pool, n->n_outputs, sizeof *results);
    if (r == 0 && !results)
        r = error_no_memory(e, "a constant", 0);
    if (r == 0)
        r = take_outputs(l, n, results, e);
    return r < 0 ? r : l->executor->run_node(&f->g, x.data, results, e);
}

// STATUS_FAIL of the executor is the model's fault here: it becomes STATUS_MODEL_INVALID.
int onnx_fold(struct onnx_lowering *l, const struct graph_node *n, struct error *e)
{
    for (uint32_t i = 0; i < n->n_outputs; i++)
        l->folded += n->outputs[i] < 0 ? 0 : l->g->tensors[n->outputs[i]].size;
    if (l->folded > ONNX_FOLDED_MAX)
        return onnx_refuse(l, e, "its constants make up more than %llu MB",
                           (unsigned long long)(ONNX_FOLDED_MAX >> 20));
    struct fold f = {0};
    int r = compute(l, &f, n, e);
    graph_done(&f.g);
    return r == STATUS_FAIL ? error_recode(e, STATUS_MODEL_INVALID) : r;
}
