// Nodes that make bytes of bytes one by one: how the chip does that, from their registers.
#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/rknn_chain.h"

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

// Where parts are joined for a convolution that puts their channels together (rknn_joins.c).
static bool is_working_memory(const struct rknn_lowering *l, int32_t tensor)
{
    if (l->out->op != GRAPH_CONCAT || tensor < 0)
        return false;
    for (uint32_t i = 0; i < l->n_inputs; i++)
        if (l->inputs[i] == tensor)
            return false;
    const struct rknn_tensor *t = &l->f->tensors[tensor];
    return t->kind == RKNN_KIND_ACTIVATION && t->type == RKNN_I8;
}

static int take_chain(struct rknn_lowering *l, uint32_t x, uint32_t y,
                      const struct graph_chain **ret, struct error *e)
{
    if (!lower_is_bytes(lower_input(l, x)) || !lower_is_bytes(lower_output(l, y)))
        return 0;
    int r = rknn_chain(l->regs, l->f, l->node, l->inputs[x], l->outputs[y], l->g, ret, e);
    for (uint32_t i = 0; i < l->node->n_inputs && r == 0 && !*ret; i++)
        if (is_working_memory(l, l->node->inputs[i]))
            r = rknn_chain_with(l->regs, l->f, l->node,
                                (const int32_t[]){l->inputs[x], l->node->inputs[i]}, l->g, ret,
                                NULL, e);
    return r < 0 ? error_prefix(e, "node %s (%s)", l->node->name, l->node->op) : 0;
}

// Whether it only moves what is in its first input. What convolutions do for it (Expand spreads one
// channel by a kernel of ones) is not looked at here.
static bool moves(const struct rknn_lowering *l)
{
    switch (l->out->op) {
    case GRAPH_RESHAPE:
    case GRAPH_TRANSPOSE:
    case GRAPH_SLICE:
    case GRAPH_EXPAND:
    case GRAPH_PAD:
        return true;
    case GRAPH_RESIZE:
        return l->out->resize.mode == INTERPOLATE_NEAREST;
    default:
        return false;
    }
}

// Parts that are joined and taken apart are real numbers of one type, or bytes, which have a scale
// of their own (take_chain).
static bool keeps_type(const struct rknn_lowering *l, const struct graph_tensor *x,
                       const struct graph_tensor *y)
{
    return !x || !y || x->constant || (x->type == y->type && x->quantized == y->quantized) ||
           !lower_has_program(l);
}

// What is moved stays what it is, in type and scale, and so does what windows choose or average.
static int check_kept(const struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    bool parts = l->out->op == GRAPH_CONCAT || l->out->op == GRAPH_SPLIT;
    bool kept = keeps_type(l, x, y);
    for (uint32_t i = 1; parts && i < l->out->n_inputs; i++)
        kept = kept && keeps_type(l, lower_input(l, i), y);
    for (uint32_t i = 1; parts && i < l->out->n_outputs; i++)
        kept = kept && keeps_type(l, x, lower_output(l, i));
    if (kept && !parts && x && !x->constant && x->quantized && lower_has_program(l))
        kept = x->scale == y->scale && x->zp == y->zp;
    return kept ? 0 : lower_refuse(l, e, "it moves numbers of one type or scale to another");
}

int lower_copies(struct rknn_lowering *l, struct error *e)
{
    bool parts = l->out->op == GRAPH_CONCAT || l->out->op == GRAPH_SPLIT, moved = moves(l);
    bool pools = l->out->op == GRAPH_MAX_POOL || l->out->op == GRAPH_AVERAGE_POOL;
    if (l->out->on_cpu || (!moved && !parts && !pools))
        return 0;
    if (check_kept(l, e) < 0)
        return STATUS_MODEL_INVALID;
    if (!moved || !lower_is_bytes(lower_input(l, 0)) || !lower_is_bytes(lower_output(l, 0)))
        return 0;
    int r = rknn_chain_copies(l->regs, l->f, l->node, l->g, e);
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
