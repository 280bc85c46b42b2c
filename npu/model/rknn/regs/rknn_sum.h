// How an Add or a Mul of two int8 is done by the DPU on its own, without a convolution:
//
//     first operand ---> BS: + constant, * constant, shift ---> EW ---> OUT_CVT
//     second operand --> + constant, * constant, shift ---------^
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// `inputs`: the node's two tensors, whose order *ret has. `relu`: one follows. False: its
/// registers are none that are known to add or multiply so, or tasks differ, and *ret is as it was.
bool rknn_sum_read(const struct rknn_regs *regs, const struct rknn_file *f, const int32_t inputs[2],
                   bool relu, struct graph_sum *ret);
