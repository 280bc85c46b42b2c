// Vectors with AVX512, for functions that run where kernel_has_v4().
#pragma once

#include "npu/sim/exec/rows.h"
#include "npu/sim/simd/fp16_binary.h"

#ifdef KERNEL_V4
#include <immintrin.h>

#define V4_INLINE  KERNEL_V4 static inline __attribute__((always_inline))
#define V4_LANES   16
#define V4_ALL     UINT16_MAX
#define V4_REST(n) ((__mmask16)((1u << (n) % V4_LANES) - 1)) // the last lanes of n

// Numbers that half_join_knows() combines.
V4_INLINE __m512 lanes_join(const enum graph_op op, __m512 v, __m512 w)
{
    return op == GRAPH_ADD   ? _mm512_add_ps(v, w)
           : op == GRAPH_SUB ? _mm512_sub_ps(v, w)
                             : _mm512_mul_ps(v, w);
}

// Of two zeros, and of what is no number, these instructions take the second operand.
V4_INLINE __m512 lanes_bound(struct half_bounds bounds, __m512 v)
{
    v = _mm512_max_ps(_mm512_set1_ps(bounds.low), v);
    return _mm512_min_ps(_mm512_set1_ps(bounds.high), v);
}

V4_INLINE __m512 lanes_load_halves(__mmask16 lanes, const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, x));
}

// Stores with a mask are slow.
V4_INLINE void lanes_store_halves(__mmask16 lanes, __m512 v, struct half_bounds bounds, uint16_t *y)
{
    // The form without a mask is, where nothing is optimized, a macro with a signed one.
    __m256i halves =
        _mm512_maskz_cvtps_ph(V4_ALL, lanes_bound(bounds, v), _MM_FROUND_TO_NEAREST_INT);
    if (lanes == V4_ALL)
        _mm256_storeu_si256((void *)y, halves);
    else
        _mm256_mask_storeu_epi16(y, lanes, halves);
}
#endif
