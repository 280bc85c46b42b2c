// rknn_batch_size N: the file's tensors describe one input, but a run takes and returns N. The
// software NPU sets the first dimension of all activations to N instead of running N times. This is
// right only for operators that treat inputs independently: GRAPH_OPS says which, and all others
// are refused.
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

static bool is_repeatable(const struct graph_node *n)
{
    static const enum graph_batch batches[GRAPH_OP_COUNT] = {
#define X(symbol, kernel, cost, batch) [GRAPH_##symbol] = BATCH_##batch,
        GRAPH_OPS(X)
#undef X
    };
    switch (batches[n->op]) {
    case BATCH_EACH:
        return true;
    case BATCH_AXIS:
        return n->axis > 0;
    case BATCH_PERM:
        return n->perm[0] == 0;
    case BATCH_BEGIN:
        return n->pad.begin[0] == 0;
    case BATCH_AXES:
        return !(n->axes & 1);
    case BATCH_NONE:
        break;
    }
    return false;
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
