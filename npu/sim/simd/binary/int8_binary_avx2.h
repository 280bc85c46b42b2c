// What int8_binary.h's functions are with AVX2, where kernel_has_avx2(); they call these.
#pragma once

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"

void int8_binary_avx2(enum graph_op op, const struct element_form forms[3], const void *a,
                      const void *b, size_t n, struct clamp_bounds bounds, void *y);
void int8_with_floats_avx2(enum graph_op op, const struct element_form forms[2], const void *x,
                           const float *b, bool swapped, size_t n, struct clamp_bounds bounds,
                           void *y);
void int8_scale_avx2(const struct element_form forms[2], const void *x, const float *factor,
                     const float *term, size_t n, struct clamp_bounds bounds, void *y);
