// A sum in halves with an operand of one line: a convolution writes that line as often as the other
// operand has lines.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each convolution of an Add repeats a line as it is. STATUS_MODEL_INVALID, with the
/// register's name: one does something else, or it is not known.
int rknn_repeat_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e);
