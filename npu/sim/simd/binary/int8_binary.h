// Arithmetic on arrays of int8 that never leaves the registers, where kernel_has_avx2().
//
// Results are those of elements_load(), the operator, elements_post() and elements_store(). Nothing
// needs to be aligned, and y may be an operand.
#pragma once

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"

/// Whether floats hold all that int8_sum() computes.
bool int8_sum_fits(const struct graph_sum *sum);

/// y[i] = a[i] + b[i], or their product, as `sum` says, and `low` at least.
void int8_sum(const struct graph_sum *sum, int8_t low, const void *a, const void *b, size_t n,
              void *y);

/// y[i] = x[i] op b[i], or b[i] op x[i] with `swapped`: int8 and floats, where kernel_has_avx2()
/// and fp16_binary_knows(op). `forms`: of x and y.
void int8_with_floats(enum graph_op op, const struct element_form forms[2], const void *x,
                      const float *b, bool swapped, size_t n, struct clamp_bounds bounds, void *y);

/// y[i] = x[i] * factor[i] + term[i], rounded once, where kernel_has_avx2().
void int8_scale(const struct element_form forms[2], const void *x, const float *factor,
                const float *term, size_t n, struct clamp_bounds bounds, void *y);

/// y[i] = x[i] * factor[i] + term[i] scaled by `out`, + zp, and `low` at least, as the chip rounds
/// it: once. Factors and terms are integers; whether floats hold what they make of bytes.
bool int8_scale_exact_fits(int64_t factor, int64_t term, struct graph_scaling out);
void int8_scale_exact(const void *x, const float *factor, const float *term, size_t n,
                      struct graph_scaling out, int32_t low, int32_t zp, void *y);

/// y[i] = a[i] op b[i], where kernel_has_avx2() and fp16_binary_knows(op).
void int8_binary(enum graph_op op, const struct element_form forms[3], const void *a, const void *b,
                 size_t n, struct clamp_bounds bounds, void *y);
