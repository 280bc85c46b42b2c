// Trilu on elements as they are stored: of each row a part is copied, the rest is zeros. Where
// channels are last, pixels are in an element's place. Quantized bytes are the reference operator's
// (ref_move.c).
//
// Tests: test_onnx_nodes, test_onnx_moves.
#include <string.h>

#include "npu/sim/exec/ops.h"

bool op_trilu_fits(const struct graph *g, const struct graph_node *n)
{
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_TRILU || n->n_inputs != 1 || n->n_outputs != 1 ||
        n->inputs[0] < 0 || n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    return x->n_dims >= 2 && x->type == y->type && x->type <= TENSOR_BOOL && !x->quantized &&
           !y->quantized && !x->unpack && !x->natural && !y->natural &&
           x->channels_last == y->channels_last && x->n_elems && x->n_elems == y->n_elems &&
           x->n_dims == y->n_dims && memcmp(x->dims, y->dims, x->n_dims * sizeof *x->dims) == 0;
}

static int trilu_prepare(struct step *s, struct error *e)
{
    return op_trilu_fits(s->plan->graph, s->node) ? 0 : step_refuse(s, e, "it is not a matrix");
}

// How many elements of row i are left of the diagonal, and of it (`of` 1) or not (0).
static size_t trilu_left(int64_t i, int64_t diagonal, int64_t of, size_t columns)
{
    const int64_t left = i + diagonal + of;
    return left < 0 ? 0 : (uint64_t)left > columns ? columns : (size_t)left;
}

static int trilu_run(const struct step *s, struct run *r, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    const bool upper = s->node->ref.ints[0];
    const size_t size = tensor_type_size(x->type) * (x->channels_last ? x->dims[1] : 1);
    const size_t columns = x->dims[x->n_dims - 1];
    const uint32_t rows = x->dims[x->n_dims - 2];
    const uint8_t *from = run_input(s, r, 0);
    uint8_t *to = run_output(s, r, 0);
    (void)e;
    for (uint64_t i = 0; i < x->size / (size * columns); i++) {
        const size_t left =
            size * trilu_left((int64_t)(i % rows), s->node->ref.ints[1], !upper, columns);
        const size_t right = size * columns - left;
        memcpy(to + (upper ? left : 0), from + (upper ? left : 0), upper ? right : left);
        memset(to + (upper ? 0 : left), 0, upper ? left : right);
        from += size * columns;
        to += size * columns;
    }
    return 0;
}

const struct op op_trilu = {.prepare = trilu_prepare, .run = trilu_run, .on_constant = true};
