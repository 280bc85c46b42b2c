// Expand, which convolutions do: a kernel of one for each channel spreads one byte. And Pad, which
// copies and fills.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

/// Whether each convolution of an Expand of bytes leaves its sums as they are but for the zero
/// point. STATUS_MODEL_INVALID, with the register's name: one does not, or it is not known.
int rknn_spread_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e);

/// Whether a Pad of halves does what its tables say: the image is in its place, and around it is
/// the number that it pads with. STATUS_MODEL_INVALID: it does not, or it is not known.
int rknn_pad_known(const struct rknn_regs *regs, const struct rknn_file *f,
                   const struct rknn_node *n, const struct graph_node *out, struct error *e);
