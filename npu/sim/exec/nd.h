// Loops over up to four tensors of many dimensions at once, with broadcasting, made of as few and
// as long inner loops as possible.
//
// nd_init() and nd_broadcast() describe the loop, nd_simplify() shortens it. Adding x[2,1,4] to
// y[2,3,4], both plain:
//
//               dims      strides of y   strides of x
//   described   2 3 4     12 4 1         4 0 1          a stride of 0 repeats
//   simplified  2 3 4     12 4 1         4 0 1          (x[2,3,4]: one loop of 24, strides 1 and 1)
//
// The innermost dimension (nd_inner(), nd_stride()) is for a kernel; nd_start() and nd_next() walk
// the others.
#pragma once

#include "npu/model/graph.h"

#define ND_MAX_DIMS     16
#define ND_MAX_OPERANDS 4

// Sizes from the outermost dimension to the innermost, and each operand's strides in elements.
struct nd {
    uint32_t n_dims, n_operands;
    int64_t dims[ND_MAX_DIMS];
    int64_t strides[ND_MAX_OPERANDS][ND_MAX_DIMS];
};

/// A loop over `t`'s dimensions as operand 0.
void nd_init(struct nd *nd, const struct graph_tensor *t);

/// Adds an operand that is broadcast to the loop's dimensions, as ONNX does. False: it does not
/// fit.
bool nd_broadcast(struct nd *nd, const struct graph_tensor *t);

/// Adds an operand by its strides (one for each dimension of the loop so far).
void nd_add(struct nd *nd, const int64_t *strides);

/// Puts the dimensions into the order of operand 0's memory and joins those that are contiguous
/// for all operands. After that n_dims >= 1, and the last dimension is the inner loop.
void nd_simplify(struct nd *nd);

/// Puts a dimension of size 1 before the inner loop if that is all there is.
void nd_split_inner(struct nd *nd);

/// Exchanges two dimensions.
void nd_swap(struct nd *nd, uint32_t a, uint32_t b);

// Walks all dimensions but the innermost: for (nd_start(&nd, &at); !at.end; nd_next(&nd, &at)) …
// at.offset[k] ….
struct nd_position {
    int64_t index[ND_MAX_DIMS];
    int64_t offset[ND_MAX_OPERANDS];
    bool end;
};

void nd_start(const struct nd *nd, struct nd_position *at);
void nd_next(const struct nd *nd, struct nd_position *at);

/// Length of the inner loop, and an operand's stride in it.
static inline size_t nd_inner(const struct nd *nd)
{
    return (size_t)nd->dims[nd->n_dims - 1];
}

static inline int64_t nd_stride(const struct nd *nd, uint32_t operand)
{
    return nd->strides[operand][nd->n_dims - 1];
}

// A tensor seen along one axis, in the order of its dimensions: element (o, k, i) is number
// (o * size + k) * inner + i.
struct nd_axis {
    size_t outer, size, inner;
};

struct nd_axis nd_axis(const struct graph_tensor *t, uint32_t axis);
