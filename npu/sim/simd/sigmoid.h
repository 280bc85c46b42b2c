// 1 / (1 + e^-x) of many floats, in instructions that compilers do not find: half the time of
// elements_post()'s loop, and a third of oneDNN's activation behind a convolution.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// Whether the CPU has the instructions, and DNNL_MAX_CPU_ISA allows them. Any thread.
bool sigmoid_fits(void);

/// Each of n floats becomes its sigmoid, or, with `times_x`, x times that (Swish, SiLU). In place;
/// x needs no alignment. Off by four units in the last place at most; 0 where the sigmoid is below
/// 2^-126. NaN stays NaN. Only where sigmoid_fits(). Any thread.
void sigmoid_many(bool times_x, float *x, size_t n);
