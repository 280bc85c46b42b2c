// Operators of the models `custom*`, as programs bring them along; for the programs that test them.
#pragma once

#include "../conformance.h"
#include "rknn_custom_op.h"

// What was called, all operators together.
struct calls {
    int init, prepare, compute, destroy;
};
struct calls custom_ops_calls(void);

/// y = a + alpha * b, z = b - alpha * a; checks all that it is given.
rknn_custom_op custom_op_residual(void);

/// y = x + by, of int64.
rknn_custom_op custom_op_shift(void);

/// The largest along axis 1, of float32 in and int64 out: for an operator that the runtime knows.
rknn_custom_op custom_op_argmax(void);

static inline uint8_t *custom_ops_data(const rknn_custom_op_tensor *t)
{
    return (uint8_t *)t->mem.virt_addr + t->mem.offset;
}
