// Nodes that lie in another order than they are to run in, as converters to float16 leave them: the
// casts that they add come last. Graphs inside nodes stay as they are, since a name that is made
// later there can be one of the graph around before.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/order/order_nodes.h"
#include "npu/model/onnx/onnx_file.h"

// Reorders the list by the places of its nodes.
static int sort_move(struct onnx_file *f, const uint32_t *order, struct error *e)
{
    struct onnx_node *sorted = pool_alloc(f->pool, f->n_nodes, sizeof *sorted);
    if (!sorted)
        return error_no_memory(e, "the model", f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        sorted[i] = f->nodes[order[i]];
    f->nodes = sorted;
    return 0;
}

int onnx_file_sort(struct onnx_file *f, struct error *e)
{
    cleanup(free_p) struct order_node *nodes = calloc((size_t)f->n_nodes + 1, sizeof *nodes);
    cleanup(free_p) uint32_t *order = calloc((size_t)f->n_nodes + 1, sizeof *order);
    bool moved;
    if (!nodes || !order)
        return error_no_memory(e, "the model", f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        nodes[i] = (struct order_node){.inputs = f->nodes[i].inputs,
                                       .outputs = f->nodes[i].outputs,
                                       .n_inputs = f->nodes[i].n_inputs,
                                       .n_outputs = f->nodes[i].n_outputs};
    int r = order_nodes(nodes, f->n_nodes, order, &moved, e);
    return r == 0 && moved ? sort_move(f, order, e) : r;
}
