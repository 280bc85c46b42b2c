// e^x of rows of floats and their sum, as a softmax needs them, in instructions that compilers do
// not find.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// Whether the CPU has the instructions, and DNNL_MAX_CPU_ISA allows them. Any thread.
bool exponential_fits(void);

/// y[i] = e^(x[i] - top) of n floats that are not above `top`; returns their sum. y may be x; no
/// alignment is needed. Off by two units in the last place at most; 0 below e^-87. NaN stays NaN.
/// Only where exponential_fits(). Any thread.
float exponential_row(const float *x, float top, size_t n, float *y);

/// Softmax of each of `rows` rows of n floats, one behind the other; y may be x. A number that is
/// NaN makes its row NaN. Only where exponential_fits(). Any thread.
void exponential_softmax(const float *x, size_t rows, size_t n, float *y);
