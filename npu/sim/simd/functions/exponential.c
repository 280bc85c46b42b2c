// e^(x - top) of floats with AVX512 and AVX2, where x is not above `top`.
//
//   v = x - top      n = round(v / ln 2)      r = n ln 2 - v, |r| <= ln 2 / 2   (ln 2 in two parts)
//   e^v = 2^n e^-r   e^-r = 1 - r (1 - r q(r))
//
// q and 2^n are those of simd/sigmoid.c.
//
// Tests: test_sim_erf.
#include "npu/sim/simd/functions/exponential.h"

#include <stdlib.h>
#include <string.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/functions/exponential_terms.h"

#ifdef KERNEL_AVX512
// Without optimization GCC 14 has macros for some intrinsics, with conversions of their own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
AVX512_INLINE __m512 exponential_16(__m512 v)
{
    const __m512 one = _mm512_set1_ps(1);
    __mmask16 above = _mm512_cmp_ps_mask(v, _mm512_set1_ps(LOWEST), _CMP_NLT_UQ); // or NaN
    __m512 shifted = _mm512_fmadd_ps(v, _mm512_set1_ps(LOG2_E), _mm512_set1_ps(ROUNDS));
    __m512 n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUNDS));
    __m512 r = _mm512_fmsub_ps(n, _mm512_set1_ps(LN2), v);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(LN2_REST), r);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(Q4), r, _mm512_set1_ps(Q3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q2));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q1));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(Q0));
    __m512 power = _mm512_fmadd_ps(_mm512_fmsub_ps(q, r, one), r, one);
    __m512i two_to_n = _mm512_slli_epi32(_mm512_castps_si512(shifted), MANTISSA_BITS);
    return _mm512_maskz_mul_ps(above, power, _mm512_castsi512_ps(two_to_n));
}
#pragma GCC diagnostic pop

AVX512_INLINE float exponential_row_512(const float *x, float top, size_t n, float *y)
{
    const __m512 less = _mm512_set1_ps(top);
    __m512 sum = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES) {
        __m512 v = exponential_16(_mm512_sub_ps(_mm512_loadu_ps(x + i), less));
        sum = _mm512_add_ps(sum, v);
        _mm512_storeu_ps(y + i, v);
    }
    if (i < n) {
        __mmask16 lanes = AVX512_TAIL(n - i);
        __m512 v = exponential_16(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), less));
        sum = _mm512_mask_add_ps(sum, lanes, sum, v);
        _mm512_mask_storeu_ps(y + i, lanes, v);
    }
    return _mm512_reduce_add_ps(sum);
}

// NaN is above nothing: vmaxps returns its second operand then.
AVX512_INLINE float highest_of_row_512(const float *x, size_t n)
{
    __m512 top = _mm512_set1_ps(-INFINITY);
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        top = _mm512_max_ps(_mm512_loadu_ps(x + i), top);
    if (i < n) {
        __mmask16 lanes = AVX512_TAIL(n - i);
        top = _mm512_mask_max_ps(top, lanes, _mm512_maskz_loadu_ps(lanes, x + i), top);
    }
    return _mm512_reduce_max_ps(top);
}

KERNEL_AVX512 static float exponential_512(const float *x, float top, size_t n, float *y)
{
    return exponential_row_512(x, top, n, y);
}

KERNEL_AVX512 static void softmax_512(const float *x, size_t rows, size_t n, float *y)
{
    for (; rows; rows--, x += n, y += n) {
        float sum = exponential_row_512(x, highest_of_row_512(x, n), n, y);
        __m512 factor = _mm512_set1_ps(1 / sum);
        size_t i = 0;
        for (; i + AVX512_LANES <= n; i += AVX512_LANES)
            _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(y + i), factor));
        for (; i < n; i++)
            y[i] *= 1 / sum;
    }
}
#endif

#ifdef KERNEL_AVX2
AVX2_INLINE __m256 exponential_8(__m256 v)
{
    const __m256 one = _mm256_set1_ps(1);
    __m256 above = _mm256_cmp_ps(v, _mm256_set1_ps(LOWEST), _CMP_NLT_UQ); // or NaN
    __m256 shifted = _mm256_fmadd_ps(v, _mm256_set1_ps(LOG2_E), _mm256_set1_ps(ROUNDS));
    __m256 n = _mm256_sub_ps(shifted, _mm256_set1_ps(ROUNDS));
    __m256 r = _mm256_fmsub_ps(n, _mm256_set1_ps(LN2), v);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(LN2_REST), r);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(Q4), r, _mm256_set1_ps(Q3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(Q0));
    __m256 power = _mm256_fmadd_ps(_mm256_fmsub_ps(q, r, one), r, one);
    __m256i two_to_n = _mm256_slli_epi32(_mm256_castps_si256(shifted), MANTISSA_BITS);
    return _mm256_and_ps(above, _mm256_mul_ps(power, _mm256_castsi256_ps(two_to_n)));
}

AVX2_INLINE float exponential_row_256(const float *x, float top, size_t n, float *y)
{
    const __m256 less = _mm256_set1_ps(top);
    __m256 sum = _mm256_setzero_ps();
    float lanes[AVX2_LANES], all;
    size_t i = 0;
    for (; i + AVX2_LANES <= n; i += AVX2_LANES) {
        __m256 v = exponential_8(_mm256_sub_ps(_mm256_loadu_ps(x + i), less));
        sum = _mm256_add_ps(sum, v);
        _mm256_storeu_ps(y + i, v);
    }
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    all = _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
    memset(lanes, 0, sizeof lanes);
    if (i < n) {
        memcpy(lanes, x + i, (n - i) * sizeof *x);
        _mm256_storeu_ps(lanes, exponential_8(_mm256_sub_ps(_mm256_loadu_ps(lanes), less)));
        memcpy(y + i, lanes, (n - i) * sizeof *y);
        for (size_t l = 0; l < n - i; l++)
            all += lanes[l];
    }
    return all;
}

AVX2_INLINE float highest_of_row_256(const float *x, size_t n)
{
    __m256 top = _mm256_set1_ps(-INFINITY);
    size_t i = 0;
    for (; i + AVX2_LANES <= n; i += AVX2_LANES)
        top = _mm256_max_ps(_mm256_loadu_ps(x + i), top);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    float all = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
    for (; i < n; i++)
        all = x[i] > all ? x[i] : all;
    return all;
}

KERNEL_AVX2 static float exponential_256(const float *x, float top, size_t n, float *y)
{
    return exponential_row_256(x, top, n, y);
}

KERNEL_AVX2 static void softmax_256(const float *x, size_t rows, size_t n, float *y)
{
    for (; rows; rows--, x += n, y += n) {
        float sum = exponential_row_256(x, highest_of_row_256(x, n), n, y);
        __m256 factor = _mm256_set1_ps(1 / sum);
        size_t i = 0;
        for (; i + AVX2_LANES <= n; i += AVX2_LANES)
            _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), factor));
        for (; i < n; i++)
            y[i] *= 1 / sum;
    }
}
#endif

bool exponential_fits(void)
{
    return kernel_has_avx2();
}

float exponential_row(const float *x, float top, size_t n, float *y)
{
#ifdef KERNEL_AVX512
    return kernel_has_avx512() ? exponential_512(x, top, n, y) : exponential_256(x, top, n, y);
#else
    (void)x, (void)top, (void)n, (void)y;
    abort(); // exponential_fits() is never true
#endif
}

void exponential_softmax(const float *x, size_t rows, size_t n, float *y)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512())
        softmax_512(x, rows, n, y);
    else
        softmax_256(x, rows, n, y);
#else
    (void)x, (void)rows, (void)n, (void)y;
    abort();
#endif
}
