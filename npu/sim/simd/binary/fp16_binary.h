// Arithmetic on arrays of fp16 that never leaves the registers, where fp16_binary_fits().
//
// Results are those of floats, rounded to nearest, ties to even. Nothing needs to be aligned, and y
// may be an operand.
#pragma once

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/kernel.h"

/// AVX2, or 64-bit ARM.
static inline bool fp16_binary_fits(void)
{
#ifdef __aarch64__
    return true;
#else
    return kernel_has_avx2();
#endif
}

/// True for the operators that fp16_binary() and int8_binary() have.
bool fp16_binary_knows(enum graph_op op);

/// y[i] = a[i] op b[i]
void fp16_binary(enum graph_op op, const void *a, const void *b, size_t n,
                 struct clamp_bounds bounds, void *y);

/// Whether fp16_binary() converts nothing: then operands had better stay fp16.
bool fp16_binary_is_native(enum graph_op op, struct clamp_bounds bounds);

/// y[i] = x[i] op b[i], or b[i] op x[i] with `swapped`: fp16 and floats.
void fp16_with_floats(enum graph_op op, const void *x, const float *b, bool swapped, size_t n,
                      struct clamp_bounds bounds, void *y);

/// y[i] = x[i] * factor[i] + term[i]
void fp16_scale(const void *x, const float *factor, const float *term, size_t n,
                struct clamp_bounds bounds, void *y);
