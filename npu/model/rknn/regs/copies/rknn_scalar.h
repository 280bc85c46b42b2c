// A product with a number that the run computes: a convolution writes that one byte for each
// channel first.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether the first task of the node that is loaded copies the byte that is tensor `from` to each
/// channel of tensor `to`, and does nothing else. False: it does something else, or that is not
/// known of this chip.
bool rknn_scalar_copied(const struct rknn_regs *regs, const struct rknn_file *f, int32_t from,
                        int32_t to);
