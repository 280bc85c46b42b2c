// The yardstick of bench_sim: oneDNN's own time for one convolution, alone and warm, in the layouts
// that oneDNN likes best.
#pragma once

#include <stdbool.h>

#include "npu/sim/graph.h"

/// Nanoseconds of one call on one thread: the best of many. 8-bit integers to 8-bit integers for
/// a convolution of integers, else floats. Negative: oneDNN has none.
double conv_time_ns(const struct graph *g, const struct graph_node *n);
