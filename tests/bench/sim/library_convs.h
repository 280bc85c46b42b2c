// A yardstick of bench_sim on arm64, where oneDNN has few kernels of its own: a graph's
// convolutions as XNNPACK runs them, which picks its kernels by what the processor can.
#pragma once

#include "npu/model/graph.h"

struct library_convs;

/// Makes one operator for each convolution that XNNPACK has, of 8-bit integers with a scale for
/// each channel or of floats, its images in channels last, its weights packed. Bounds, bias and the
/// zero points of images and outputs are in it; zero points of weights and what is added behind are
/// not. NULL: XNNPACK does not start, or no memory. The caller frees it with library_convs_free().
struct library_convs *library_convs_new(const struct graph *g);
void library_convs_free(struct library_convs *l);

/// Whether node i of the graph is among them.
bool library_convs_has(const struct library_convs *l, uint32_t i);

/// Runs all of them once, on one thread.
void library_convs_run(struct library_convs *l);
