// The error function of many floats, and GELU, in instructions that compilers do not find: a fifth
// of the time of elements_post()'s loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// Whether the CPU has the instructions, and DNNL_MAX_CPU_ISA allows them. Any thread.
bool erf_fits(void);

/// Each of n floats becomes its error function, or, with `gelu`, x / 2 * (1 + erf(x / √2)). In
/// place; x needs no alignment. The error function is off by four units in the last place at most.
/// NaN stays NaN. Only where erf_fits(). Any thread.
void erf_many(bool gelu, float *x, size_t n);
