// The yardstick of bench_sim: oneDNN's own time for one convolution, alone and warm, in the layouts
// that oneDNN likes best, with all that oneDNN can do in the same call: bias, the image's and the
// output's zero points, output scales, Relu, LeakyRelu and Clip. Zero points of weights it does not
// know.
#pragma once

#include <stdbool.h>

#include "npu/model/graph.h"

/// Nanoseconds of one call on one thread: the best of many. 8-bit integers to 8-bit integers for
/// a convolution of integers, else floats to floats. Negative: oneDNN has none.
double conv_time_ns(const struct graph *g, const struct graph_node *n);

/// The same for a ConvTranspose; 0: oneDNN has none but a reference in plain C.
double transposed_time_ns(const struct graph *g, const struct graph_node *n);
