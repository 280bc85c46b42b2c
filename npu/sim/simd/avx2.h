// 8 floats with AVX2, for functions compiled as KERNEL_AVX2, which run where kernel_has_avx2().
// Unlike AVX512 (avx512.h) it has no masks for single elements of fp16: the last ones of an array
// go through a vector of their own in memory.
//
// NaN: a lower bound takes its place, as there.
#pragma once

#include <string.h>

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"

#ifdef KERNEL_AVX2
#include <immintrin.h>
#include <math.h>

#define AVX2_INLINE KERNEL_AVX2 static inline __attribute__((always_inline))
#define AVX2_LANES  8

// v op w, for the operators of fp16_binary_knows().
AVX2_INLINE __m256 avx2_binary(const enum graph_op op, __m256 v, __m256 w)
{
    return op == GRAPH_ADD   ? _mm256_add_ps(v, w)
           : op == GRAPH_SUB ? _mm256_sub_ps(v, w)
                             : _mm256_mul_ps(v, w);
}

// -0 stays -0, as in elements_post(): of two zeros vmaxps would take the second operand.
AVX2_INLINE __m256 avx2_clamp(struct clamp_bounds bounds, __m256 v)
{
    const __m256 low = _mm256_set1_ps(bounds.low);
    if (bounds.low > -INFINITY) {
        __m256 below = _mm256_cmp_ps(v, low, _CMP_NGE_UQ);
        v = float_bits(bounds.low) ? _mm256_blendv_ps(v, low, below) : _mm256_andnot_ps(below, v);
    }
    return bounds.high < INFINITY ? _mm256_min_ps(_mm256_set1_ps(bounds.high), v) : v;
}

AVX2_INLINE __m256 avx2_load_fp16(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)x));
}

// To fp16, to nearest, ties to even.
AVX2_INLINE void avx2_store_fp16(__m256 v, struct clamp_bounds bounds, uint16_t *y)
{
    __m128i halves = _mm256_cvtps_ph(avx2_clamp(bounds, v), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((void *)y, halves);
}

// 32 integers of 32 bits, which lie as they are, saturated to int8. Packs work in halves of a
// vector: parts of 4 change places behind them.
AVX2_INLINE void avx2_store_packed(const __m256i v[4], int8_t *y)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    _mm256_storeu_si256((void *)y, _mm256_permutevar8x32_epi32(packed, in_order));
}
#endif
