// rknn_batch_size N: the file's tensors describe one input, but a run takes and returns N. The
// software NPU sets the first dimension of all activations to N instead of running N times. This is
// right only for operators that treat inputs independently: is_repeatable() says which, and all
// others are refused.
#include "npu/model/rknn/lower/rknn_lower.h"

void lower_batch(struct graph_tensor *t, uint32_t batch)
{
    if (!t->constant && t->n_dims && t->dims[0] == 1)
        t->dims[0] = batch;
}

// Whether the first dimension of a tensor counts inputs.
static bool counts_inputs(const struct rknn_lowering *l, const struct graph_tensor *t)
{
    return !t || t->constant || (t->n_dims && t->dims[0] == l->f->batch);
}

// Whether the node computes each input of a batch on its own: elementwise and windowed operators
// do, others if dimension 0, the batch, is neither reduced, moved nor joined.
static bool is_repeatable(const struct graph_node *n)
{
    switch (n->op) {
    case GRAPH_CONV:
    case GRAPH_CONV_TRANSPOSE:
    case GRAPH_MAX_POOL:
    case GRAPH_AVERAGE_POOL:
    case GRAPH_ADD:
    case GRAPH_SUB:
    case GRAPH_MUL:
    case GRAPH_DIV:
    case GRAPH_POW:
    case GRAPH_MAX:
    case GRAPH_MIN:
    case GRAPH_PRELU:
    case GRAPH_UNARY:
    case GRAPH_RESHAPE:
    case GRAPH_RESIZE:
    case GRAPH_BATCH_NORM:
    case GRAPH_CONVERT:
    case GRAPH_EXPAND:
        return true;
    case GRAPH_CONCAT:
    case GRAPH_SPLIT:
    case GRAPH_SOFTMAX:
    case GRAPH_ARG_MAX:
    case GRAPH_GLU:
        return n->axis > 0;
    case GRAPH_TRANSPOSE:
        return n->perm[0] == 0;
    case GRAPH_PAD:
        return n->pad.begin[0] == 0;
    case GRAPH_REDUCE_MEAN:
        return !(n->axes & 1);
    default:
        return false;
    }
}

int lower_check_batch(const struct rknn_lowering *l, struct error *e)
{
    bool fits = is_repeatable(l->out);
    if (l->f->batch == 1)
        return 0;
    for (uint32_t i = 0; i < l->out->n_inputs; i++)
        fits = fits && counts_inputs(l, lower_input(l, i));
    for (uint32_t i = 0; i < l->out->n_outputs; i++)
        fits = fits && counts_inputs(l, lower_output(l, i));
    return fits ? 0
                : lower_refuse(l, e,
                               "what it does to %u inputs at once (rknn_batch_size) is not "
                               "known",
                               l->f->batch);
}
