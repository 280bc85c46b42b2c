// The precisions of tasks, held against the types of the tensors that they read and write.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Of a node of the NPU. Bytes between nodes have a scale; a task that reads or writes one of the
/// node's tensors does so in the tensor's type, or moves it in wider pieces. STATUS_MODEL_INVALID,
/// with the register's or the tensor's name.
int rknn_types_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, struct error *e);
