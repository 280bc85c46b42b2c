// All operators of the executor. NULL: not implemented.
#pragma once

#include "npu/sim/exec/plan.h"

extern const struct op *const ops[GRAPH_OP_COUNT];

/// Of those, where the output is a narrow tensor of ONNX (rounds_before_zp). NULL: the same as ops.
extern const struct op *const ops_of_steps[GRAPH_OP_COUNT];

extern const struct op op_conv, op_pool, op_binary, op_unary, op_norm, op_concat, op_split,
    op_slice, op_pad, op_expand, op_reshape, op_transpose, op_convert, op_resize, op_softmax,
    op_layer_norm, op_glu, op_reduce_mean, op_arg_max, op_ex_mat_mul, op_grid_sample, op_top_k,
    op_gather, op_gather_elements, op_custom, op_mat_mul, op_ref, op_quantize, op_map,
    op_steps_binary, op_steps_softmax;
