// Nodes that make bytes of bytes one by one: how the chip does that, from their registers.
#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/rknn_chain.h"

static bool is_bytes(const struct graph_tensor *t)
{
    return t && t->type == TENSOR_INT8 && t->quantized && !t->constant;
}

// Parts: the inputs of Concat, the outputs of Split, else all at once.
static uint32_t count_parts(const struct rknn_lowering *l)
{
    switch (l->out->op) {
    case GRAPH_CONCAT:
        return l->out->n_inputs;
    case GRAPH_SPLIT:
        return l->out->n_outputs;
    case GRAPH_UNARY:
        return 1;
    default:
        return 0;
    }
}

static int take_chain(struct rknn_lowering *l, uint32_t x, uint32_t y,
                      const struct graph_chain **ret, struct error *e)
{
    if (!is_bytes(lower_input(l, x)) || !is_bytes(lower_output(l, y)))
        return 0;
    int r = rknn_chain(l->regs, l->f, l->node, l->inputs[x], l->outputs[y], l->g, ret, e);
    return r < 0 ? error_prefix(e, "node %s (%s)", l->node->name, l->node->op) : 0;
}

int lower_chains(struct rknn_lowering *l, struct error *e)
{
    uint32_t n = l->out->on_cpu ? 0 : count_parts(l);
    if (!n)
        return 0;
    const struct graph_chain **chains = pool_alloc(&l->g->pool, n, sizeof *chains);
    if (!chains)
        return error_no_memory(e, "chains", n * sizeof *chains);
    l->out->chains = chains;
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        chains[i] = NULL;
        r = take_chain(l, l->out->op == GRAPH_CONCAT ? i : 0, l->out->op == GRAPH_SPLIT ? i : 0,
                       &chains[i], e);
    }
    return r;
}
