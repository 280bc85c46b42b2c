// Where tasks that work on tensors in memory read and write, held against the tensors.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each task of the node that reads memory and does not convolve (sums, products, tables,
/// what only moves bytes, pools) has the sizes and strides that its tensors give it, in all of its
/// units alike, and whether the tasks of a pool write the output once. Nodes whose tensors lie
/// otherwise than in blocks of channels, and those that change shapes, are looked at less closely.
/// Registers that the node does not set are left alone. STATUS_MODEL_INVALID, with the register's
/// name. `op`: what the node has become.
int rknn_places_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, enum graph_op op, struct error *e);
