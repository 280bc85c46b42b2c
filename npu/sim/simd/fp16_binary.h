// Arithmetic on rows of half precision that never leaves the vectors, where kernel_has_avx512().
//
// Results are those of floats, rounded to nearest, ties to even. Nothing needs to be aligned, and y
// may be an operand.
#pragma once

#include "npu/model/graph.h"

// What is done behind: y = min(max(y, low), high); what is no number stays so.
struct clamp_bounds {
    float low, high;
};

/// True when the activations are such bounds.
bool clamp_bounds(const struct graph_post *posts, uint32_t n_posts, struct clamp_bounds *ret);

/// True for the operators that fp16_binary() has.
bool fp16_binary_knows(enum graph_op op);

/// y[i] = a[i] op b[i]
void fp16_binary(enum graph_op op, const void *a, const void *b, size_t n,
                 struct clamp_bounds bounds, void *y);

/// y[i] = x[i] * factor[i] + term[i]
void fp16_scale(const void *x, const float *factor, const float *term, size_t n,
                struct clamp_bounds bounds, void *y);
