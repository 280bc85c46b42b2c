// How an integer convolution turns sums into outputs: from its bias table and its registers.
#pragma once

#include "npu/sim/graph.h"
#include "npu/sim/lut.h"
#include "npu/sim/rknn_regs.h"
#include "npu/sim/rknn_weights.h"

struct rknn_conv_sources {
    const struct rknn_file *file;
    const struct rknn_node *node;
    const struct chip *chip;
    const struct rknn_regs *regs;
    const struct rknn_packing *packing;
    const struct rknn_tensor *weight, *bias, *output; // bias NULL: there is none
};

/// Fills *ret from `pool`. With `lut`, the scales lead to the table's input and the table's output
/// scale is set as well, else to real numbers.
int rknn_conv_quant(const struct rknn_conv_sources *s, struct pool *pool, struct graph_lut *lut,
                    struct graph_conv_quant **ret, struct error *e);

/// The slope of a fused LeakyRelu, from the registers.
int rknn_leaky_alpha(const struct rknn_conv_sources *s, float *ret, struct error *e);
