// int8_binary.c with AVX2: 32 elements at a time, of which the last ones of an array go through
// memory of their own. Compiled without contracted products, as that is.
//
// Tests: test_sim_int8_AVX2.
#include "npu/sim/simd/binary/int8_binary_avx2.h"

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/binary/binary.h"

#ifdef KERNEL_AVX2
#define EACH (4 * AVX2_LANES)

// Real numbers of eight stored ones.
AVX2_INLINE __m256 int8_load_eight(const struct element_form *form, const int8_t *x)
{
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)x)));
    if (!form->quantized)
        return v;
    v = _mm256_sub_ps(v, _mm256_set1_ps((float)form->zp));
    return _mm256_mul_ps(v, _mm256_set1_ps(form->scale));
}

// Real numbers to stored ones, as elements_store() does it. With the bound second, NaN becomes the
// lower one.
AVX2_INLINE void int8_store_each(const struct element_form *form, struct clamp_bounds bounds,
                                 const __m256 real[4], int8_t *y)
{
    float step = form->quantized ? 1 / form->scale : 1;
    int32_t rest = form->quantized ? form->zp - form->odd : 0;
    __m256i stored[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m256 v = avx2_clamp(bounds, real[k]);
        v = _mm256_fmadd_ps(v, _mm256_set1_ps(step), _mm256_set1_ps((float)form->odd));
        v = _mm256_max_ps(v, _mm256_set1_ps((float)(-128 - rest)));
        v = _mm256_min_ps(v, _mm256_set1_ps((float)(127 - rest)));
        stored[k] = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(rest));
    }
    avx2_store_packed(stored, y);
}

// Operand b: bytes, or floats.
AVX2_INLINE void int8_join_each(const enum graph_op op, const bool floats, const bool swapped,
                                const struct element_form forms[3], const int8_t *a, const void *b,
                                struct clamp_bounds bounds, int8_t *y)
{
    __m256 real[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
        __m256 v = int8_load_eight(&forms[0], a + k * AVX2_LANES);
        __m256 w = floats ? _mm256_loadu_ps((const float *)b + k * AVX2_LANES)
                          : int8_load_eight(&forms[1], (const int8_t *)b + k * AVX2_LANES);
        real[k] = swapped ? avx2_binary(op, w, v) : avx2_binary(op, v, w);
    }
    int8_store_each(&forms[2], bounds, real, y);
}

// The last elements are computed in a whole vector of copies, of which only they are stored:
// nothing behind the arrays is read or written.
AVX2_INLINE void int8_join_all(const enum graph_op op, const bool floats, const bool swapped,
                               const struct element_form of[3], const int8_t *a, const void *b,
                               size_t n, struct clamp_bounds bounds, int8_t *y)
{
    const struct element_form forms[] = {of[0], of[1], of[2]}; // a copy, which no store changes
    const size_t size = floats ? sizeof(float) : 1;
    size_t i = 0;
    for (; i + EACH <= n; i += EACH)
        int8_join_each(op, floats, swapped, forms, a + i, (const uint8_t *)b + i * size, bounds,
                       y + i);
    if (i == n)
        return;
    int8_t last[EACH] = {0};
    float other[EACH] = {0};
    memcpy(last, a + i, n - i);
    memcpy(other, (const uint8_t *)b + i * size, (n - i) * size);
    int8_join_each(op, floats, swapped, forms, last, other, bounds, last);
    memcpy(y + i, last, n - i);
}

KERNEL_AVX2 void int8_binary_avx2(enum graph_op op, const struct element_form forms[3],
                                  const void *a, const void *b, size_t n,
                                  struct clamp_bounds bounds, void *y)
{
    WITH_BINARY(op, int8_join_all, false, false, forms, a, b, n, bounds, y);
}

KERNEL_AVX2 void int8_with_floats_avx2(enum graph_op op, const struct element_form of[2],
                                       const void *x, const float *b, bool swapped, size_t n,
                                       struct clamp_bounds bounds, void *y)
{
    const struct element_form forms[3] = {of[0], {0}, of[1]};
    if (swapped)
        WITH_BINARY(op, int8_join_all, true, true, forms, x, b, n, bounds, y);
    else
        WITH_BINARY(op, int8_join_all, true, false, forms, x, b, n, bounds, y);
}

// x * factor + term, rounded once.
AVX2_INLINE void int8_scale_each(const struct element_form forms[2], const int8_t *x,
                                 const float *factor, const float *term, struct clamp_bounds bounds,
                                 int8_t *y)
{
    __m256 real[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++)
        real[k] = _mm256_fmadd_ps(int8_load_eight(&forms[0], x + k * AVX2_LANES),
                                  _mm256_loadu_ps(factor + k * AVX2_LANES),
                                  _mm256_loadu_ps(term + k * AVX2_LANES));
    int8_store_each(&forms[1], bounds, real, y);
}

KERNEL_AVX2 void int8_scale_avx2(const struct element_form of[2], const void *x,
                                 const float *factor, const float *term, size_t n,
                                 struct clamp_bounds bounds, void *y)
{
    const struct element_form forms[] = {of[0], of[1]};
    const int8_t *from = x;
    int8_t *to = y, last[EACH] = {0};
    float factors[EACH] = {0}, terms[EACH] = {0};
    size_t i = 0;
    for (; i + EACH <= n; i += EACH)
        int8_scale_each(forms, from + i, factor + i, term + i, bounds, to + i);
    if (i == n)
        return;
    memcpy(last, from + i, n - i);
    memcpy(factors, factor + i, (n - i) * sizeof *factor);
    memcpy(terms, term + i, (n - i) * sizeof *term);
    int8_scale_each(forms, last, factors, terms, bounds, last);
    memcpy(to + i, last, n - i);
}
#endif
