// The loops over arrays of fp16 that kernels for AVX2 and NEON share. Whole vectors are computed
// where they are; the last elements go through memory of their own. `lanes` and `some` are
// constants, so that all is one function.
#pragma once

#include <string.h>

#include "npu/sim/simd/clamp.h"

#define FP16_LANES 8

/// y[i] = a[i] op b[i], FP16_LANES of them at a time.
static inline __attribute__((always_inline)) void
fp16_each(const enum graph_op op,
          void (*some)(const enum graph_op op, const uint16_t *a, const uint16_t *b,
                       struct clamp_bounds bounds, uint16_t *y),
          const uint16_t *a, const uint16_t *b, size_t n, struct clamp_bounds bounds, uint16_t *y)
{
    uint16_t last[2][FP16_LANES] = {{0}};
    size_t i = 0, left = n % FP16_LANES;
#pragma GCC unroll 4
    for (; i < n - left; i += FP16_LANES)
        some(op, a + i, b + i, bounds, y + i);
    if (!left)
        return;
    memcpy(last[0], a + i, left * sizeof *a);
    memcpy(last[1], b + i, left * sizeof *b);
    some(op, last[0], last[1], bounds, last[0]);
    memcpy(y + i, last[0], left * sizeof *y);
}

/// y[i] = x[i] * factor[i] + term[i], likewise.
static inline __attribute__((always_inline)) void
fp16_scale_each(void (*some)(const uint16_t *x, const float *factor, const float *term,
                             struct clamp_bounds bounds, uint16_t *y),
                const uint16_t *x, const float *factor, const float *term, size_t n,
                struct clamp_bounds bounds, uint16_t *y)
{
    uint16_t last[FP16_LANES] = {0};
    float factors[FP16_LANES] = {0}, terms[FP16_LANES] = {0};
    size_t i = 0, left = n % FP16_LANES;
    for (; i < n - left; i += FP16_LANES)
        some(x + i, factor + i, term + i, bounds, y + i);
    if (!left)
        return;
    memcpy(last, x + i, left * sizeof *x);
    memcpy(factors, factor + i, left * sizeof *factor);
    memcpy(terms, term + i, left * sizeof *term);
    some(last, factors, terms, bounds, last);
    memcpy(y + i, last, left * sizeof *y);
}

/// y[i] = x[i] op b[i] or, swapped, b[i] op x[i], of fp16 and floats, likewise.
static inline __attribute__((always_inline)) void
fp16_floats_each(const enum graph_op op,
                 void (*some)(const enum graph_op op, const bool swapped, const uint16_t *x,
                              const float *b, struct clamp_bounds bounds, uint16_t *y),
                 const bool swapped, const uint16_t *x, const float *b, size_t n,
                 struct clamp_bounds bounds, uint16_t *y)
{
    uint16_t last[FP16_LANES] = {0};
    float floats[FP16_LANES] = {0};
    size_t i = 0, left = n % FP16_LANES;
    for (; i < n - left; i += FP16_LANES)
        some(op, swapped, x + i, b + i, bounds, y + i);
    if (!left)
        return;
    memcpy(last, x + i, left * sizeof *x);
    memcpy(floats, b + i, left * sizeof *b);
    some(op, swapped, last, floats, bounds, last);
    memcpy(y + i, last, left * sizeof *y);
}
