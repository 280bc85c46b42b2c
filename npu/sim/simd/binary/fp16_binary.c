// Arithmetic on arrays of fp16 with AVX512: 16 elements, 8 with AVX2, are converted to floats,
// combined, clamped and converted back in registers.
//
//   a | 16 fp16 | --> | 16 floats |
//                                     op, clamp --> | 16 fp16 | y
//   b | 16 fp16 | --> | 16 floats |
//
// Rounding: the operation in floats, then to fp16, both to nearest, ties to even. (A float has
// enough bits for the sum or product of two fp16 to be rounded to fp16 as if once.) fp16_scale() is
// one fused multiply-add. Per element 6 bytes are moved, no floats among them.
//
// Tests: test_sim_fp16.
#include "npu/sim/simd/binary/fp16_binary.h"

#include <stdlib.h>

#include "npu/sim/simd/avx2.h"
#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/binary/binary.h"
#include "npu/sim/simd/binary/fp16_each.h"

bool fp16_binary_knows(enum graph_op op)
{
    return op == GRAPH_ADD || op == GRAPH_SUB || op == GRAPH_MUL;
}

#ifdef KERNEL_AVX512
AVX512_INLINE void fp16_binary_lanes(const enum graph_op op, __mmask16 lanes, const uint16_t *a,
                                     const uint16_t *b, struct clamp_bounds bounds, uint16_t *y)
{
    __m512 v = avx512_load_fp16(lanes, a), w = avx512_load_fp16(lanes, b);
    avx512_store_fp16(lanes, avx512_binary(op, v, w), bounds, y);
}

AVX512_INLINE void fp16_binary_all(const enum graph_op op, const uint16_t *a, const uint16_t *b,
                                   size_t n, struct clamp_bounds bounds, uint16_t *y)
{
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        fp16_binary_lanes(op, AVX512_ALL, a + i, b + i, bounds, y + i);
    if (i < n)
        fp16_binary_lanes(op, AVX512_TAIL(n), a + i, b + i, bounds, y + i);
}

KERNEL_AVX512 static void fp16_binary_512(enum graph_op op, const uint16_t *a, const uint16_t *b,
                                          size_t n, struct clamp_bounds bounds, uint16_t *y)
{
    WITH_BINARY(op, fp16_binary_all, a, b, n, bounds, y);
}

AVX512_INLINE void fp16_floats_lanes(const enum graph_op op, const bool swapped, __mmask16 lanes,
                                     const uint16_t *x, const float *b, struct clamp_bounds bounds,
                                     uint16_t *y)
{
    __m512 v = avx512_load_fp16(lanes, x), w = _mm512_maskz_loadu_ps(lanes, b);
    avx512_store_fp16(lanes, swapped ? avx512_binary(op, w, v) : avx512_binary(op, v, w), bounds,
                      y);
}

AVX512_INLINE void fp16_floats_all(const enum graph_op op, const bool swapped, const uint16_t *x,
                                   const float *b, size_t n, struct clamp_bounds bounds,
                                   uint16_t *y)
{
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        fp16_floats_lanes(op, swapped, AVX512_ALL, x + i, b + i, bounds, y + i);
    if (i < n)
        fp16_floats_lanes(op, swapped, AVX512_TAIL(n), x + i, b + i, bounds, y + i);
}

KERNEL_AVX512 static void fp16_with_floats_512(enum graph_op op, const uint16_t *x, const float *b,
                                               bool swapped, size_t n, struct clamp_bounds bounds,
                                               uint16_t *y)
{
    if (swapped)
        WITH_BINARY(op, fp16_floats_all, true, x, b, n, bounds, y);
    else
        WITH_BINARY(op, fp16_floats_all, false, x, b, n, bounds, y);
}

AVX512_INLINE void fp16_scale_lanes(__mmask16 lanes, const uint16_t *x, const float *factor,
                                    const float *term, struct clamp_bounds bounds, uint16_t *y)
{
    __m512 f = _mm512_maskz_loadu_ps(lanes, factor), t = _mm512_maskz_loadu_ps(lanes, term);
    avx512_store_fp16(lanes, _mm512_fmadd_ps(avx512_load_fp16(lanes, x), f, t), bounds, y);
}

KERNEL_AVX512 static void fp16_scale_512(const uint16_t *x, const float *factor, const float *term,
                                         size_t n, struct clamp_bounds bounds, uint16_t *y)
{
    size_t i = 0;
    for (; i + AVX512_LANES <= n; i += AVX512_LANES)
        fp16_scale_lanes(AVX512_ALL, x + i, factor + i, term + i, bounds, y + i);
    if (i < n)
        fp16_scale_lanes(AVX512_TAIL(n), x + i, factor + i, term + i, bounds, y + i);
}

// ---- AVX2 ----

AVX2_INLINE void fp16_binary_8(const enum graph_op op, const uint16_t *a, const uint16_t *b,
                               struct clamp_bounds bounds, uint16_t *y)
{
    avx2_store_fp16(avx2_binary(op, avx2_load_fp16(a), avx2_load_fp16(b)), bounds, y);
}

KERNEL_AVX2 static void fp16_binary_256(enum graph_op op, const uint16_t *a, const uint16_t *b,
                                        size_t n, struct clamp_bounds bounds, uint16_t *y)
{
    WITH_BINARY(op, fp16_each, fp16_binary_8, a, b, n, bounds, y);
}

AVX2_INLINE void fp16_floats_8(const enum graph_op op, const bool swapped, const uint16_t *x,
                               const float *b, struct clamp_bounds bounds, uint16_t *y)
{
    __m256 v = avx2_load_fp16(x), w = _mm256_loadu_ps(b);
    avx2_store_fp16(swapped ? avx2_binary(op, w, v) : avx2_binary(op, v, w), bounds, y);
}

KERNEL_AVX2 static void fp16_with_floats_256(enum graph_op op, const uint16_t *x, const float *b,
                                             bool swapped, size_t n, struct clamp_bounds bounds,
                                             uint16_t *y)
{
    if (swapped)
        WITH_BINARY(op, fp16_floats_each, fp16_floats_8, true, x, b, n, bounds, y);
    else
        WITH_BINARY(op, fp16_floats_each, fp16_floats_8, false, x, b, n, bounds, y);
}

AVX2_INLINE void fp16_scale_8(const uint16_t *x, const float *factor, const float *term,
                              struct clamp_bounds bounds, uint16_t *y)
{
    __m256 f = _mm256_loadu_ps(factor), t = _mm256_loadu_ps(term);
    avx2_store_fp16(_mm256_fmadd_ps(avx2_load_fp16(x), f, t), bounds, y);
}

KERNEL_AVX2 static void fp16_scale_256(const uint16_t *x, const float *factor, const float *term,
                                       size_t n, struct clamp_bounds bounds, uint16_t *y)
{
    fp16_scale_each(fp16_scale_8, x, factor, term, n, bounds, y);
}

void fp16_binary(enum graph_op op, const void *a, const void *b, size_t n,
                 struct clamp_bounds bounds, void *y)
{
    (kernel_has_avx512() ? fp16_binary_512 : fp16_binary_256)(op, a, b, n, bounds, y);
}

void fp16_with_floats(enum graph_op op, const void *x, const float *b, bool swapped, size_t n,
                      struct clamp_bounds bounds, void *y)
{
    (kernel_has_avx512() ? fp16_with_floats_512 : fp16_with_floats_256)(op, x, b, swapped, n,
                                                                        bounds, y);
}

void fp16_scale(const void *x, const float *factor, const float *term, size_t n,
                struct clamp_bounds bounds, void *y)
{
    (kernel_has_avx512() ? fp16_scale_512 : fp16_scale_256)(x, factor, term, n, bounds, y);
}
#elif !defined(__aarch64__) // fp16_binary_neon.c
void fp16_binary(enum graph_op op, const void *a, const void *b, size_t n,
                 struct clamp_bounds bounds, void *y)
{
    (void)op, (void)a, (void)b, (void)n, (void)bounds, (void)y;
    abort(); // fp16_binary_fits() is never true
}

void fp16_with_floats(enum graph_op op, const void *x, const float *b, bool swapped, size_t n,
                      struct clamp_bounds bounds, void *y)
{
    (void)op, (void)x, (void)b, (void)swapped, (void)n, (void)bounds, (void)y;
    abort();
}

void fp16_scale(const void *x, const float *factor, const float *term, size_t n,
                struct clamp_bounds bounds, void *y)
{
    (void)x, (void)factor, (void)term, (void)n, (void)bounds, (void)y;
    abort();
}
#endif

#ifndef __aarch64__
bool fp16_binary_is_native(enum graph_op op, struct clamp_bounds bounds)
{
    (void)op, (void)bounds;
    return false;
}
#endif
