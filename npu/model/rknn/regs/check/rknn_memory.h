// The DPU's units where it works on tensors in memory: all that is neither convolution nor pool.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each task of a node that makes bytes of bytes sets its units by fields that are known.
/// STATUS_MODEL_INVALID, with the register's name: one does not.
int rknn_memory_known(const struct rknn_regs *regs, const struct rknn_node *n, struct error *e);
