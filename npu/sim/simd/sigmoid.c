// The sigmoid of floats with AVX512 and AVX2.
//
//   n = round(-x / ln 2)      r = x + n ln 2, |r| <= ln 2 / 2       (ln 2 in two parts)
//   e^-x = 2^n e^-r           e^-r = 1 - r + r² q(r)
//   y = 1 / (1 + e^-x)        by a reciprocal of 14 bits and one of Newton's steps with AVX512
//
// q was fitted at Chebyshev's points: what it adds to the error is a fifth of a rounding.
//
// No number on the way is denormal, with which CPUs are tens of times as slow: x is bounded (above
// 80 y is 1 in any case, below -87 it is 0 here), and where r² would be one r is 0, which changes
// no bit of y. That is so below 2^-63, and bits of r's exponent tell: channels that training has
// let die out are that small in whole tensors.
//
// Tests: test_sim_sigmoid.
#include "npu/sim/simd/sigmoid.h"

#include <stdlib.h>
#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"

#define HIGHEST  80.0f
#define LOWEST   -87.0f
#define LOG2_E   1.44269504f
#define LN2      0x1.62ep-1f // few bits: its products with n are exact
#define LN2_REST 0x1.0bfbe8e7p-15f
#define LARGE    0x60000000 // a bit of these is set in all floats from 2^-63 on, and in NaN

// q, from the highest power of -r on.
#define Q4 0x1.6d4352p-10f
#define Q3 -0x1.120b96p-7f
#define Q2 0x1.5554e8p-5f
#define Q1 -0x1.5554dcp-3f
#define Q0 .5f

#ifdef KERNEL_AVX512
// Without optimization GCC 14 has macros for some intrinsics, with conversions of their own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
AVX512_INLINE __m512 sigmoid_16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1);
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(LOWEST), _CMP_NLT_UQ); // or NaN
    __m512 v = avx512_between(LOWEST, HIGHEST, x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(v, _mm512_set1_ps(-LOG2_E)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(LN2), v);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(LN2_REST), r);
    __mmask16 large = _mm512_test_epi32_mask(_mm512_castps_si512(r), _mm512_set1_epi32(LARGE));
    r = _mm512_maskz_mov_ps(large, r);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(Q4), r, _mm512_set1_ps(Q3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q2));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q1));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q0));
    __m512 power = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, _mm512_sub_ps(one, r));
    __m512 sum = _mm512_add_ps(_mm512_scalef_ps(power, n), one);
    __m512 y = _mm512_rcp14_ps(sum);
    return _mm512_maskz_fmadd_ps(above, y, _mm512_fnmadd_ps(sum, y, one), y);
}
#pragma GCC diagnostic pop

// A constant for each loop, which compilers make two of.
AVX512_INLINE __m512 sigmoid_or_product_16(__m512 x, const bool times_x)
{
    __m512 y = sigmoid_16(x);
    return times_x ? _mm512_mul_ps(x, y) : y;
}

AVX512_INLINE void sigmoid_all_512(float *x, size_t n, const bool times_x)
{
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        _mm512_storeu_ps(x + i, sigmoid_or_product_16(_mm512_loadu_ps(x + i), times_x));
    if (i == n)
        return;
    __mmask16 lanes = AVX512_TAIL(n - i);
    __m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
    _mm512_mask_storeu_ps(x + i, lanes, sigmoid_or_product_16(v, times_x));
}

KERNEL_AVX512 static void sigmoid_512(bool times_x, float *x, size_t n)
{
    if (times_x)
        sigmoid_all_512(x, n, true);
    else
        sigmoid_all_512(x, n, false);
}
#endif

#ifdef KERNEL_AVX2
AVX2_INLINE __m256 sigmoid_8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1), lowest = _mm256_set1_ps(LOWEST);
    __m256 above = _mm256_cmp_ps(x, lowest, _CMP_NLT_UQ); // or NaN, which bounds let pass
    __m256 v = _mm256_min_ps(_mm256_set1_ps(HIGHEST), _mm256_max_ps(lowest, x));
    __m256i exponent = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(-LOG2_E)));
    __m256 n = _mm256_cvtepi32_ps(exponent);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(LN2), v);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(LN2_REST), r);
    __m256i size = _mm256_and_si256(_mm256_castps_si256(r), _mm256_set1_epi32(LARGE));
    r = _mm256_and_ps(r, _mm256_castsi256_ps(_mm256_cmpgt_epi32(size, _mm256_setzero_si256())));
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(Q4), r, _mm256_set1_ps(Q3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q0));
    __m256 power = _mm256_fmadd_ps(_mm256_mul_ps(r, r), q, _mm256_sub_ps(one, r));
    // Of NaN only the upper bits change: it stays NaN by what is added to it.
    __m256 scaled = _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(power), _mm256_slli_epi32(exponent, 23)));
    __m256 y = _mm256_div_ps(one, _mm256_add_ps(scaled, one));
    return _mm256_and_ps(above, y);
}

AVX2_INLINE __m256 sigmoid_or_product_8(__m256 x, const bool times_x)
{
    __m256 y = sigmoid_8(x);
    return times_x ? _mm256_mul_ps(x, y) : y;
}

AVX2_INLINE void sigmoid_all_256(float *x, size_t n, const bool times_x)
{
    size_t i = 0;
    float last[AVX2_LANES] = {0};
    for (; i + AVX2_LANES <= n; i += AVX2_LANES)
        _mm256_storeu_ps(x + i, sigmoid_or_product_8(_mm256_loadu_ps(x + i), times_x));
    memcpy(last, x + i, (n - i) * sizeof *x);
    _mm256_storeu_ps(last, sigmoid_or_product_8(_mm256_loadu_ps(last), times_x));
    memcpy(x + i, last, (n - i) * sizeof *x);
}

KERNEL_AVX2 static void sigmoid_256(bool times_x, float *x, size_t n)
{
    if (times_x)
        sigmoid_all_256(x, n, true);
    else
        sigmoid_all_256(x, n, false);
}
#endif

bool sigmoid_fits(void)
{
    return kernel_has_avx2();
}

void sigmoid_many(bool times_x, float *x, size_t n)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512())
        sigmoid_512(times_x, x, n);
    else
        sigmoid_256(times_x, x, n);
#else
    (void)times_x, (void)x, (void)n;
    abort(); // sigmoid_fits() is never true
#endif
}
