// Whether a node's registers say what the file's tables say of it. Where they do not, one of the
// two is not understood, and the node is refused.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"

#define RKNN_POOL_MAX_KERNEL 16 // of one step

struct rknn_agree_conv {
    const struct graph_window *window;
    const struct graph_tensor *x, *y;
    bool depthwise, transposed, integer;
    bool of_input;                     // x is an input of the model
    const struct graph_tensor *addend; // NULL: none
    int32_t addend_tensor;             // the file's
    bool relu_behind;                  // what is added to it is followed by a Relu
};

/// Kernel, steps, padding, what is padded with, kind and precision of a convolution, by the first
/// task. STATUS_MODEL_INVALID: a register says something else.
int rknn_agree_window(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                      struct error *e);

/// The same, and what is between its sums and the output, of all tasks of a node that is a
/// convolution.
int rknn_agree_conv(const struct rknn_regs *regs, const struct rknn_agree_conv *c, struct error *e);

/// Which pool, its kernel, steps, padding and divisor, where one window makes the output.
/// STATUS_MODEL_INVALID: as above.
int rknn_agree_pool(const struct rknn_regs *regs, const struct graph_window *w, bool average,
                    const struct graph_tensor *y, struct error *e);
