// The sigmoid of floats with AVX512 and AVX2.
//
//   n = round(-x / ln 2)      r = x + n ln 2, |r| <= ln 2 / 2       (ln 2 in two parts)
//   e^-x = 2^n e^-r           e^-r = 1 - r (1 - r q(r))
//   y = 1 / (1 + e^-x)        or x / (1 + e^-x)
//
// q was fitted at Chebyshev's points: what it adds to the error is a fifth of a rounding.
//
// n is added to a number so large that n and the exponent's bias are its last bits: shifted to the
// exponent's place these are 2^n. That holds from LOWEST to HIGHEST, above which y is 1 in any
// case; below LOWEST y is 0 here, whatever comes out.
//
// No product of r is rounded, so none is denormal, with which CPUs are tens of times as slow:
// channels that training has let die out have numbers whose squares are that small.
//
// Tests: test_sim_sigmoid.
#include "npu/sim/simd/sigmoid.h"

#include <stdlib.h>
#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/functions/exponential_terms.h"

#define HIGHEST 80.0f

#ifdef KERNEL_AVX512
// Without optimization GCC 14 has macros for some intrinsics, with conversions of their own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
// 1 + e^-x, of x that are above LOWEST; of others any.
AVX512_INLINE __m512 sigmoid_divisor_16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1);
    __m512 v = _mm512_min_ps(_mm512_set1_ps(HIGHEST), x);
    __m512 shifted = _mm512_fmadd_ps(v, _mm512_set1_ps(-LOG2_E), _mm512_set1_ps(ROUNDS));
    __m512 n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUNDS));
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(LN2), v);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(LN2_REST), r);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(Q4), r, _mm512_set1_ps(Q3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q2));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q1));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q0));
    __m512 power = _mm512_fmadd_ps(_mm512_fmsub_ps(q, r, one), r, one);
    __m512i two_to_n = _mm512_slli_epi32(_mm512_castps_si512(shifted), MANTISSA_BITS);
    return _mm512_fmadd_ps(power, _mm512_castsi512_ps(two_to_n), one);
}

// A constant for each loop, which compilers make two of.
AVX512_INLINE __m512 sigmoid_or_product_16(__m512 x, const bool times_x)
{
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(LOWEST), _CMP_NLT_UQ); // or NaN
    return _mm512_maskz_div_ps(above, times_x ? x : _mm512_set1_ps(1), sigmoid_divisor_16(x));
}
#pragma GCC diagnostic pop

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
// As sigmoid_divisor_16().
AVX2_INLINE __m256 sigmoid_divisor_8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1);
    __m256 v = _mm256_min_ps(_mm256_set1_ps(HIGHEST), x);
    __m256 shifted = _mm256_fmadd_ps(v, _mm256_set1_ps(-LOG2_E), _mm256_set1_ps(ROUNDS));
    __m256 n = _mm256_sub_ps(shifted, _mm256_set1_ps(ROUNDS));
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(LN2), v);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(LN2_REST), r);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(Q4), r, _mm256_set1_ps(Q3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q0));
    __m256 power = _mm256_fmadd_ps(_mm256_fmsub_ps(q, r, one), r, one);
    __m256i two_to_n = _mm256_slli_epi32(_mm256_castps_si256(shifted), MANTISSA_BITS);
    return _mm256_fmadd_ps(power, _mm256_castsi256_ps(two_to_n), one);
}

AVX2_INLINE __m256 sigmoid_or_product_8(__m256 x, const bool times_x)
{
    __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(LOWEST), _CMP_NLT_UQ); // or NaN
    __m256 y = _mm256_div_ps(times_x ? x : _mm256_set1_ps(1), sigmoid_divisor_8(x));
    return _mm256_and_ps(above, y);
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
