// Questions that a chip may answer in another way than npu/sim's kernels (tensor/arithmetic.h).
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Of a node whose commands are loaded. STATUS_MODEL_INVALID, with the switch's name: it meets a
/// question to which the chip is taken to have another answer than the kernels.
int rknn_choice_check(const struct rknn_regs *regs, struct error *e);
