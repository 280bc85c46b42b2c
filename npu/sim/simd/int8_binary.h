// Arithmetic on rows of 8-bit numbers that never leaves the vectors, where the CPU has AVX512.
//
// Results are those of elements_load(), the operator, elements_post() and elements_store(). Nothing
// needs to be aligned, and y may be an operand.
#pragma once

#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/fp16_binary.h"

/// y[i] = a[i] op b[i], where kernel_has_avx512() and fp16_binary_knows(op).
void int8_binary(enum graph_op op, const struct element_form forms[3], const void *a, const void *b,
                 size_t n, struct clamp_bounds bounds, void *y);
