// The yardstick of bench_sim for products of matrices: oneDNN's own time for them, alone and warm.
#pragma once

#include "npu/model/graph.h"

/// Nanoseconds on one thread, the best of many, of all that oneDNN multiplies for a node: MatMul,
/// exMatMul and both products of an attention, floats or, where each factor is of 8 bits, integers;
/// a ConvTranspose (conv_times.h). 0 for all other nodes. What softmax and roundings between two
/// products compute is not in it.
double product_time_ns(const struct graph *g, const struct graph_node *n);
