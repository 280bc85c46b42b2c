// What the DPU makes of tensors in memory, byte by byte, without a convolution: copies from one
// scale to another, activations by table.
//
//     tensor ---> BS: + , * , shift ---> BN: * , + , shift ---> table ---> OUT_CVT
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// How the node's tasks bring `from` to `to`. *ret: from g's
/// pool; NULL: no task does. STATUS_MODEL_INVALID, with the register's name: what one holds is not
/// known, or tasks differ where the file says which tensors they work on.
int rknn_chain(const struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
               int32_t from, int32_t to, struct graph *g, const struct graph_chain **ret,
               struct error *e);
