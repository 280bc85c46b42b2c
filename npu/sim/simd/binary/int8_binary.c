// Arithmetic on arrays of int8 with AVX512, 16 elements at a time in registers; with AVX2
// int8_binary_avx2.c does the same.
//
//   real = (x - zp) * scale                                       of both operands
//   v    = clamp(real_a op real_b)
//   y    = round(v / y_scale + odd) + zp - odd, saturated          in floats, ties to even
//
// where odd is zp's lowest bit for the chips' rounding (ties to the even stored value) and 0 for
// ONNX's (ties to the even number of units): see struct element_form. Each operation rounds as that
// of elements_load(), elements_post() and elements_store() does, so results are the same bits. For
// that the file is compiled without contracted products; the one fused multiply-add, v * (1 /
// y_scale) + odd, is elements_store()'s. NaN becomes the lowest value, -128.
//
// Tests: test_sim_int8, against these functions.
#include "npu/sim/simd/binary/int8_binary.h"

#include <stdlib.h>

#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/binary/binary.h"
#include "npu/sim/simd/binary/int8_binary_avx2.h"

#ifdef KERNEL_AVX512
AVX512_INLINE __m512 int8_load_lanes(const struct element_form *form, __mmask16 lanes,
                                     const int8_t *x)
{
    __m512 v = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes, x)));
    if (!form->quantized)
        return v;
    v = _mm512_sub_ps(v, _mm512_set1_ps((float)form->zp));
    return _mm512_mul_ps(v, _mm512_set1_ps(form->scale));
}

// With the bound second, NaN becomes the lower one. Stores with a mask are slow.
AVX512_INLINE void int8_store_lanes(const struct element_form *form, __mmask16 lanes, __m512 v,
                                    int8_t *y)
{
    float step = form->quantized ? 1 / form->scale : 1;
    int32_t rest = form->quantized ? form->zp - form->odd : 0;
    v = _mm512_fmadd_ps(v, _mm512_set1_ps(step), _mm512_set1_ps((float)form->odd));
    v = _mm512_max_ps(v, _mm512_set1_ps((float)(-128 - rest)));
    v = _mm512_min_ps(v, _mm512_set1_ps((float)(127 - rest)));
    __m512i stored = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(rest));
    if (lanes == AVX512_ALL)
        _mm_storeu_si128((void *)y, _mm512_cvtepi32_epi8(stored));
    else
        _mm_mask_storeu_epi8(y, lanes, _mm512_cvtepi32_epi8(stored));
}

AVX512_INLINE void int8_binary_lanes(const enum graph_op op, const struct element_form *forms,
                                     __mmask16 lanes, const int8_t *a, const int8_t *b,
                                     struct clamp_bounds bounds, int8_t *y)
{
    __m512 v = int8_load_lanes(&forms[0], lanes, a), w = int8_load_lanes(&forms[1], lanes, b);
    int8_store_lanes(&forms[2], lanes, avx512_clamp(bounds, avx512_binary(op, v, w)), y);
}

AVX512_INLINE void int8_binary_all(const enum graph_op op, const struct element_form *of,
                                   const int8_t *a, const int8_t *b, size_t n,
                                   struct clamp_bounds bounds, int8_t *y)
{
    const struct element_form forms[] = {of[0], of[1], of[2]}; // a copy, which no store changes
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        int8_binary_lanes(op, forms, AVX512_ALL, a + i, b + i, bounds, y + i);
    if (i < n)
        int8_binary_lanes(op, forms, AVX512_TAIL(n), a + i, b + i, bounds, y + i);
}

KERNEL_AVX512 static void int8_binary_512(enum graph_op op, const struct element_form forms[3],
                                          const void *a, const void *b, size_t n,
                                          struct clamp_bounds bounds, void *y)
{
    WITH_BINARY(op, int8_binary_all, forms, a, b, n, bounds, y);
}
AVX512_INLINE void int8_with_floats_all(const enum graph_op op, const bool swapped,
                                        const struct element_form *of, const int8_t *x,
                                        const float *b, size_t n, struct clamp_bounds bounds,
                                        int8_t *y)
{
    const struct element_form forms[] = {of[0], of[1]}; // a copy, which no store changes
    for (size_t i = 0; i < n; i += AVX512_LANES) {
        __mmask16 lanes = avx512_lanes(n - i);
        __m512 v = int8_load_lanes(&forms[0], lanes, x + i),
               w = _mm512_maskz_loadu_ps(lanes, b + i);
        v = swapped ? avx512_binary(op, w, v) : avx512_binary(op, v, w);
        int8_store_lanes(&forms[1], lanes, avx512_clamp(bounds, v), y + i);
    }
}

KERNEL_AVX512 static void int8_with_floats_512(enum graph_op op, const struct element_form forms[2],
                                               const void *x, const float *b, bool swapped,
                                               size_t n, struct clamp_bounds bounds, void *y)
{
    if (swapped)
        WITH_BINARY(op, int8_with_floats_all, true, forms, x, b, n, bounds, y);
    else
        WITH_BINARY(op, int8_with_floats_all, false, forms, x, b, n, bounds, y);
}

KERNEL_AVX512 static void int8_scale_512(const struct element_form of[2], const void *x,
                                         const float *factor, const float *term, size_t n,
                                         struct clamp_bounds bounds, void *y)
{
    const struct element_form forms[] = {of[0], of[1]};
    for (size_t i = 0; i < n; i += AVX512_LANES) {
        __mmask16 lanes = avx512_lanes(n - i);
        __m512 v = int8_load_lanes(&forms[0], lanes, (const int8_t *)x + i);
        v = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(lanes, factor + i),
                            _mm512_maskz_loadu_ps(lanes, term + i));
        int8_store_lanes(&forms[1], lanes, avx512_clamp(bounds, v), (int8_t *)y + i);
    }
}

void int8_binary(enum graph_op op, const struct element_form forms[3], const void *a, const void *b,
                 size_t n, struct clamp_bounds bounds, void *y)
{
    (kernel_has_avx512() ? int8_binary_512 : int8_binary_avx2)(op, forms, a, b, n, bounds, y);
}

void int8_with_floats(enum graph_op op, const struct element_form forms[2], const void *x,
                      const float *b, bool swapped, size_t n, struct clamp_bounds bounds, void *y)
{
    (kernel_has_avx512() ? int8_with_floats_512 : int8_with_floats_avx2)(op, forms, x, b, swapped,
                                                                         n, bounds, y);
}

void int8_scale(const struct element_form forms[2], const void *x, const float *factor,
                const float *term, size_t n, struct clamp_bounds bounds, void *y)
{
    (kernel_has_avx512() ? int8_scale_512 : int8_scale_avx2)(forms, x, factor, term, n, bounds, y);
}
#else
void int8_with_floats(enum graph_op op, const struct element_form forms[2], const void *x,
                      const float *b, bool swapped, size_t n, struct clamp_bounds bounds, void *y)
{
    (void)op, (void)forms, (void)x, (void)b, (void)swapped, (void)n, (void)bounds, (void)y;
    abort(); // kernel_has_avx2() is never true
}

void int8_scale(const struct element_form forms[2], const void *x, const float *factor,
                const float *term, size_t n, struct clamp_bounds bounds, void *y)
{
    (void)forms, (void)x, (void)factor, (void)term, (void)n, (void)bounds, (void)y;
    abort(); // kernel_has_avx2() is never true
}

void int8_binary(enum graph_op op, const struct element_form forms[3], const void *a, const void *b,
                 size_t n, struct clamp_bounds bounds, void *y)
{
    (void)op, (void)forms, (void)a, (void)b, (void)n, (void)bounds, (void)y;
    abort(); // kernel_has_avx2() is never true
}
#endif
