// How large a graph is: parameters, and multiply-accumulates (MACs) of one run.
//
//      convolution            MACs = outputs * weights / output channels
//      transposed             MACs = inputs * weights / input channels
//      product of matrices    MACs = outputs * depth (the dimension that is summed over)
#include "npu/model/graph_count.h"

#include <stdlib.h>

#include "base/cleanup.h"

// Each output takes one filter; of a transposed convolution, each input goes into one.
static uint64_t conv_macs(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *w = &g->tensors[n->inputs[1]];
    const struct graph_tensor *each = n->op == GRAPH_CONV ? &g->tensors[n->outputs[0]] : x;
    uint64_t channels = each->n_dims > 1 ? each->dims[1] : 1;
    return channels ? each->n_elems * (w->n_elems / channels) : 0;
}

// The depth is A's last dimension, or the one before it where A is transposed.
static uint64_t product_macs(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *a = &g->tensors[n->inputs[0]];
    bool across = n->op == GRAPH_MAT_MUL && n->product.transpose[0] && a->n_dims > 1;
    uint32_t depth = a->n_dims ? a->dims[a->n_dims - (across ? 2 : 1)] : 1;
    return g->tensors[n->outputs[0]].n_elems * depth;
}

// Elements of the constants that nodes take, each counted once. Front-ends leave constants behind
// that they replaced by others; no node takes those.
static uint64_t count_parameters(const struct graph *g, uint8_t *seen)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].n_inputs; k++) {
            int32_t t = g->nodes[i].inputs[k];
            if (t < 0 || !g->tensors[t].constant || seen[t])
                continue;
            seen[t] = 1;
            n += g->tensors[t].n_elems;
        }
    return n;
}

static uint64_t count_macs(const struct graph *g)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *node = &g->nodes[i];
        if (node->n_inputs < 2 || node->inputs[0] < 0 || node->inputs[1] < 0 ||
            node->n_outputs == 0 || node->outputs[0] < 0)
            continue;
        if (node->op == GRAPH_CONV || node->op == GRAPH_CONV_TRANSPOSE)
            n += conv_macs(g, node);
        else if (node->op == GRAPH_MAT_MUL || node->op == GRAPH_EX_MAT_MUL)
            n += product_macs(g, node);
    }
    return n;
}

int graph_count(const struct graph *g, struct graph_count *ret, struct error *e)
{
    cleanup(free_p) uint8_t *seen = calloc((size_t)g->n_tensors + 1, 1);
    if (!seen)
        return error_no_memory(e, "the count", g->n_tensors);
    *ret = (struct graph_count){.macs = count_macs(g), .parameters = count_parameters(g, seen)};
    return 0;
}
