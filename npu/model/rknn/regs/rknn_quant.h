// How an integer convolution turns sums into outputs: from its bias table and its registers.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_stages.h"

/// Fills *ret from `pool`. With `lut`, the scales lead to the table's input and the table's output
/// scale is set as well, else to real numbers. With `alpha`, it takes the slope of a fused
/// LeakyRelu.
int rknn_conv_quant(const struct rknn_conv_sources *s, struct pool *pool, struct graph_lut *lut,
                    float *alpha, struct graph_conv_quant **ret, struct error *e);
