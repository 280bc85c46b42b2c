// Loops over tensors of up to GRAPH_MAX_DIMS dimensions with a stride per operand and dimension, in
// elements. Simplifying reduces most loops of real models to one or two dimensions:
//
// (1, 64, 56, 56) contiguous -> (200704);  (1, 64, 56, 56) + (1, 64, 1, 1) -> (64, 3136)
//
// Callers walk the outer dimensions by nd_next() and run the innermost in a kernel.
#include "npu/sim/exec/nd.h"

#include <stdlib.h>

void nd_init(struct nd *nd, const struct graph_tensor *t)
{
    *nd = (struct nd){.n_dims = t->n_dims, .n_operands = 1};
    for (uint32_t i = 0; i < t->n_dims; i++)
        nd->dims[i] = t->dims[i];
    graph_tensor_strides(t, nd->strides[0]);
}

// Adds an operand that is broadcast: shapes are aligned at the last dimension, and a dimension of 1
// repeats by a stride of 0. False: the shapes do not fit, and nothing is added.
bool nd_broadcast(struct nd *nd, const struct graph_tensor *t)
{
    int64_t own[GRAPH_MAX_DIMS], *strides = nd->strides[nd->n_operands];
    if (t->n_dims > nd->n_dims)
        return false;
    graph_tensor_strides(t, own);
    uint32_t missing = nd->n_dims - t->n_dims;
    for (uint32_t i = 0; i < nd->n_dims; i++) {
        int64_t size = i < missing ? 1 : t->dims[i - missing];
        if (size != 1 && size != nd->dims[i])
            return false;
        strides[i] = size == 1 ? 0 : own[i - missing];
    }
    nd->n_operands++;
    return true;
}

void nd_add(struct nd *nd, const int64_t *strides)
{
    memcpy(nd->strides[nd->n_operands++], strides, nd->n_dims * sizeof *strides);
}

void nd_swap(struct nd *nd, uint32_t a, uint32_t b)
{
    int64_t t = nd->dims[a];
    nd->dims[a] = nd->dims[b];
    nd->dims[b] = t;
    for (uint32_t k = 0; k < nd->n_operands; k++) {
        t = nd->strides[k][a];
        nd->strides[k][a] = nd->strides[k][b];
        nd->strides[k][b] = t;
    }
}

// Removes dimension d by moving it to the end.
static void nd_drop(struct nd *nd, uint32_t d)
{
    nd->n_dims--;
    for (uint32_t i = d; i < nd->n_dims; i++)
        nd_swap(nd, i, i + 1);
}

// Whether outer dimension a continues inner dimension b for every operand: stride[a] = stride[b] *
// dims[b].
static bool nd_joins(const struct nd *nd, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < nd->n_operands; k++)
        if (nd->strides[k][a] != nd->strides[k][b] * nd->dims[b])
            return false;
    return true;
}

// Drops dimensions of 1, sorts the others by the stride of operand 0 (largest outermost, so that it
// is written in order), and joins contiguous ones. The order of visits changes, so this is for
// loops whose elements are independent.
void nd_simplify(struct nd *nd)
{
    for (uint32_t i = nd->n_dims; i-- > 0;)
        if (nd->dims[i] == 1)
            nd_drop(nd, i);
    for (uint32_t i = 1; i < nd->n_dims; i++)
        for (uint32_t j = i; j > 0 && nd->strides[0][j - 1] < nd->strides[0][j]; j--)
            nd_swap(nd, j - 1, j);
    for (uint32_t i = nd->n_dims; i-- > 1;)
        if (nd_joins(nd, i - 1, i)) {
            nd->dims[i] *= nd->dims[i - 1];
            nd_drop(nd, i - 1);
        }
    if (!nd->n_dims) {
        nd->n_dims = 1;
        nd->dims[0] = 1;
        for (uint32_t k = 0; k < nd->n_operands; k++)
            nd->strides[k][0] = 1;
    }
}

// Makes a loop of one dimension one of two, (n, 1): for kernels that work on a plane.
void nd_split_inner(struct nd *nd)
{
    if (nd->n_dims > 1)
        return;
    nd->n_dims = 2;
    nd->dims[1] = 1;
    for (uint32_t k = 0; k < nd->n_operands; k++)
        nd->strides[k][1] = 0;
    nd_swap(nd, 0, 1);
}

void nd_start(const struct nd *nd, struct nd_position *at)
{
    *at = (struct nd_position){0};
    for (uint32_t i = 0; i < nd->n_dims; i++)
        at->end = at->end || nd->dims[i] == 0;
}

// Advances all dimensions but the innermost, like an odometer; offsets are kept up to date without
// multiplications per visit.
void nd_next(const struct nd *nd, struct nd_position *at)
{
    for (uint32_t i = nd->n_dims - 1; i-- > 0;) {
        for (uint32_t k = 0; k < nd->n_operands; k++)
            at->offset[k] += nd->strides[k][i];
        if (++at->index[i] < nd->dims[i])
            return;
        for (uint32_t k = 0; k < nd->n_operands; k++)
            at->offset[k] -= nd->strides[k][i] * nd->dims[i];
        at->index[i] = 0;
    }
    at->end = true;
}

// The tensor as (outer, n, inner), where n is the axis.
struct nd_axis nd_axis(const struct graph_tensor *t, uint32_t axis)
{
    struct nd_axis a = {1, t->dims[axis], 1};
    for (uint32_t i = 0; i < axis; i++)
        a.outer *= t->dims[i];
    for (uint32_t i = axis + 1; i < t->n_dims; i++)
        a.inner *= t->dims[i];
    return a;
}
