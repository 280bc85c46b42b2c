// Concat whose last block of channels of some input is not full.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each convolution of a Concat of bytes has the sizes and strides of a kernel of one over
/// the whole image, weights that choose one channel for each output, and leaves what they choose as
/// it is. Nodes without convolutions are left alone. STATUS_MODEL_INVALID, with the register's
/// name: one has not.
int rknn_joins_known(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct graph_node *out, struct error *e);
