// What a plugin of these tests offers: its compute() as the operator of conformance's custom.rknn.
#pragma once

#include "rknn_custom_op.h"

static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs);

__attribute__((visibility("default"))) rknn_custom_op *get_rknn_custom_op(void);

rknn_custom_op *get_rknn_custom_op(void)
{
    static rknn_custom_op op = {.version = 1,
                                .target = RKNN_TARGET_TYPE_CPU,
                                .op_type = "cstDualResidual",
                                .compute = compute};
    return &op;
}
