// The sizes of a convolution's tasks, held against each other and against its tensors.
#pragma once

#include "npu/model/rknn/regs/rknn_agree.h"

/// Whether each task works on whole lines of the node's image, its units have the same sizes,
/// tensors are read and written where they lie, and all tasks together write the output once.
/// Registers that the node does not set are left alone. STATUS_MODEL_INVALID, with the register's
/// name.
int rknn_tiles_agree(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                     struct error *e);
