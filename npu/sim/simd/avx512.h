// 16 floats with AVX512, for functions compiled as KERNEL_AVX512, which run where
// kernel_has_avx512(). Masks (`lanes`) are for the last elements of an array.
//
// NaN: a lower bound takes its place, as in elements_post(). Through an upper one it passes: vmaxps
// and vminps return their second operand where one is NaN.
#pragma once

#include "npu/sim/simd/clamp.h"
#include "npu/sim/simd/elements.h"

#ifdef KERNEL_AVX512
#include <immintrin.h>
#include <math.h>

#define AVX512_INLINE  KERNEL_AVX512 static inline __attribute__((always_inline))
#define AVX512_LANES   16
#define AVX512_ALL     UINT16_MAX
#define AVX512_TAIL(n) ((__mmask16)((1u << (n) % AVX512_LANES) - 1)) // the last lanes of n

// Those of the next vector, where `left` > 0 values are left.
AVX512_INLINE __mmask16 avx512_lanes(size_t left)
{
    return (__mmask16)(left < AVX512_LANES ? AVX512_TAIL(left) : AVX512_ALL);
}

// v op w, for the operators of fp16_binary_knows().
AVX512_INLINE __m512 avx512_binary(const enum graph_op op, __m512 v, __m512 w)
{
    return op == GRAPH_ADD   ? _mm512_add_ps(v, w)
           : op == GRAPH_SUB ? _mm512_sub_ps(v, w)
                             : _mm512_mul_ps(v, w);
}

// -0 stays -0, as in elements_post(): of two zeros vmaxps would take the second operand.
AVX512_INLINE __m512 avx512_clamp(struct clamp_bounds bounds, __m512 v)
{
    if (bounds.low > -INFINITY)
        v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, _mm512_set1_ps(bounds.low), _CMP_NGE_UQ),
                               _mm512_set1_ps(bounds.low));
    return bounds.high < INFINITY ? _mm512_min_ps(_mm512_set1_ps(bounds.high), v) : v;
}

// As avx512_clamp(), but NaN stays NaN.
AVX512_INLINE __m512 avx512_between(float low, float high, __m512 v)
{
    return _mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), v));
}

// Whole vectors go without a mask, which would take the load out of the conversion.
AVX512_INLINE __m512 avx512_load_fp16(__mmask16 lanes, const uint16_t *x)
{
    return _mm512_cvtph_ps(lanes == AVX512_ALL ? _mm256_loadu_si256((const void *)x)
                                               : _mm256_maskz_loadu_epi16(lanes, x));
}

// To fp16, to nearest, ties to even. Stores with a mask are slow, so whole vectors go without.
AVX512_INLINE void avx512_store_fp16(__mmask16 lanes, __m512 v, struct clamp_bounds bounds,
                                     uint16_t *y)
{
    // The intrinsic without a mask is a macro with a signed mask when not optimizing: it warns.
    __m256i halves =
        _mm512_maskz_cvtps_ph(AVX512_ALL, avx512_clamp(bounds, v), _MM_FROUND_TO_NEAREST_INT);
    if (lanes == AVX512_ALL)
        _mm256_storeu_si256((void *)y, halves);
    else
        _mm256_mask_storeu_epi16(y, lanes, halves);
}
#endif
