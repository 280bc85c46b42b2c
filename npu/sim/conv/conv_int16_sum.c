// The inner loops of integer convolutions with int16 (conv_int16.h).
//
// For up to 6 pixels at a time and 16 channels, or 12 and 8, and each pair of inputs:
//   sums[pixel][0..15] += x[pixel][a] * w[0..15][a] + x[pixel][b] * w[0..15][b]
//
// Why it is fast: the sums of 6 pixels x 16 channels are 12 of the 16 registers; two more hold the
// weights of the pair, which are loaded once for all pixels, one the broadcast pair of a pixel. Per
// pair and pixel there are one load, two vpmaddwd and two vpaddd: arithmetic bounds it, not loads.
// Pixels are split evenly (7 are 4 + 3, not 6 + 1), so that no tile is left with few of them.
//
// Sums are exact and wrap at 32 bits; a pair's own sum cannot overflow, since |x| <= 255.
//
// Tests: test_sim_conv_AVX2, test_sim_conv_AVX512_CORE.
#include <stdlib.h>

#include "npu/sim/conv/conv_int16.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline, no_sanitize("undefined")))

#define MAX_VECTORS 2  // for the channels of a block
#define MAX_SUMS    12 // vectors in registers: of 6 pixels with two of them, or of 12

AVX2_INLINE __m256i int16_broadcast_pair(const int16_t *x)
{
    int32_t pair_lanes;
    memcpy(&pair_lanes, x, sizeof pair_lanes);
    return _mm256_set1_epi32(pair_lanes);
}

// Adds one segment. Every third pixel has a pointer; the two behind it are reached by the
// addressing modes base + pitch and base + 2 * pitch, so that all addresses stay in registers.
AVX2_INLINE void int16_sum_segment(const struct int16_pixels *p, const int16_t *at,
                                   const int16_t *w, __m256i *sums, const int n,
                                   const int n_vectors)
{
    const int16_t *x[MAX_SUMS / 3];
    size_t pitch = p->pitch;
#pragma GCC unroll 4
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * pitch;
    for (size_t pair = 0; pair < p->joined; pair++, w += 2 * INT16_LANES * n_vectors) {
        __m256i weights[MAX_VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            weights[v] = _mm256_loadu_si256((const __m256i *)w + v);
#pragma GCC unroll 12
        for (int i = 0; i < n; i++) {
            __m256i pair_lanes =
                int16_broadcast_pair(x[i / 3] + (size_t)(i % 3) * pitch + 2 * pair);
#pragma GCC unroll 2
            for (int v = 0; v < n_vectors; v++)
                sums[i * n_vectors + v] = _mm256_add_epi32(
                    sums[i * n_vectors + v], _mm256_madd_epi16(weights[v], pair_lanes));
        }
    }
}

AVX2_INLINE void int16_sum_tile(const struct int16_pixels *p, const struct int16_block *b,
                                size_t first, int32_t *to, const int n, const int n_vectors)
{
    __m256i sums[MAX_SUMS];
    const int16_t *w = b->weights;
#pragma GCC unroll 12
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = _mm256_setzero_si256();
    for (size_t i = 0; i < p->n_segments; i++, w += p->joined * b->lanes * 2)
        int16_sum_segment(p, p->segments[i] + b->image + first * p->pitch, w, sums, n, n_vectors);
    to += first * p->channels;
#pragma GCC unroll 12
    for (int i = 0; i < n; i++, to += p->channels) {
        int32_t some[CONV_LANES];
        bool whole = p->overwrites || b->count == b->lanes;
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            _mm256_storeu_si256((__m256i *)(whole ? to : some) + v, sums[i * n_vectors + v]);
        if (!whole)
            memcpy(to, some, b->count * sizeof *to);
    }
}

// A function for each number of pixels and vectors, whose loops are unrolled.
#define UP_TO_6(X, v)  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define UP_TO_12(X, v) UP_TO_6(X, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define FUNCTION(n, v)                                                                             \
    AVX2 static void int16_sum_##n##_##v(const struct int16_pixels *p,                             \
                                         const struct int16_block *b, size_t first, int32_t *to)   \
    {                                                                                              \
        int16_sum_tile(p, b, first, to, n, v);                                                     \
    }
#define NAME(n, v) int16_sum_##n##_##v,

UP_TO_12(FUNCTION, 1)
UP_TO_6(FUNCTION, 2)

void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums)
{
    static void (*const functions[MAX_VECTORS][MAX_SUMS])(
        const struct int16_pixels *p, const struct int16_block *b, size_t first,
        int32_t *to) = {{UP_TO_12(NAME, 1)}, {UP_TO_6(NAME, 2)}};
    size_t n_vectors = b->lanes / INT16_LANES, most = MAX_SUMS / n_vectors;
    size_t tiles = (n + most - 1) / most;
    for (size_t first = 0, together; tiles; tiles--, first += together) {
        together = (n - first + tiles - 1) / tiles;
        functions[n_vectors - 1][together - 1](p, b, first, sums);
    }
}
#elif !defined(__aarch64__) // neon/conv_neon_int16.c
void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums)
{
    (void)p, (void)b, (void)n, (void)sums;
    abort(); // conv_int16_fits() is never true
}
#endif
