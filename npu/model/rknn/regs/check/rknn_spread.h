// Expand, which convolutions do: a kernel of one for each channel spreads one byte.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each convolution of an Expand of bytes leaves its sums as they are but for the zero
/// point. STATUS_MODEL_INVALID, with the register's name: one does not, or it is not known.
int rknn_spread_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e);
