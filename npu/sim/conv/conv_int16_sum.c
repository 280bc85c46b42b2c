// The inner loops of integer convolutions with int16 (conv_int16.h).
//
// For up to MAX_PIXELS pixels at a time and 16 channels, and each pair of inputs:
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

#define INT16_VECTORS 2 // of 8 sums each, for CONV_LANES channels
#define MAX_PIXELS    6 // whose sums fit the registers

AVX2_INLINE __m256i int16_broadcast_pair(const int16_t *x)
{
    int32_t pair_lanes;
    memcpy(&pair_lanes, x, sizeof pair_lanes);
    return _mm256_set1_epi32(pair_lanes);
}

// Adds one segment. Every third pixel has a pointer; the two behind it are reached by the
// addressing modes base + pitch and base + 2 * pitch, so that all addresses stay in registers.
AVX2_INLINE void int16_sum_segment(const struct int16_pixels *p, const int16_t *at,
                                   const int16_t *w, __m256i *sums, const int n)
{
    const int16_t *x[MAX_PIXELS / 3];
    size_t pitch = p->pitch;
#pragma GCC unroll 2
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * pitch;
    for (size_t pair = 0; pair < p->pairs; pair++, w += 2 * CONV_LANES) {
        __m256i weights[INT16_VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < INT16_VECTORS; v++)
            weights[v] = _mm256_loadu_si256((const __m256i *)w + v);
#pragma GCC unroll 6
        for (int i = 0; i < n; i++) {
            __m256i pair_lanes =
                int16_broadcast_pair(x[i / 3] + (size_t)(i % 3) * pitch + 2 * pair);
#pragma GCC unroll 2
            for (int v = 0; v < INT16_VECTORS; v++)
                sums[i * INT16_VECTORS + v] = _mm256_add_epi32(
                    sums[i * INT16_VECTORS + v], _mm256_madd_epi16(weights[v], pair_lanes));
        }
    }
}

AVX2_INLINE void int16_sum_tile(const struct int16_pixels *p, const struct int16_block *b,
                                size_t first, int32_t *to, const int n)
{
    __m256i sums[MAX_PIXELS * INT16_VECTORS];
    const int16_t *w = b->weights;
#pragma GCC unroll 12
    for (int i = 0; i < n * INT16_VECTORS; i++)
        sums[i] = _mm256_setzero_si256();
    for (size_t i = 0; i < p->n_segments; i++, w += p->pairs * CONV_LANES * 2)
        int16_sum_segment(p, p->segments[i] + b->image + first * p->pitch, w, sums, n);
    to += first * p->channels;
#pragma GCC unroll 6
    for (int i = 0; i < n; i++, to += p->channels) {
        int32_t some[CONV_LANES];
        bool whole = b->count == CONV_LANES;
#pragma GCC unroll 2
        for (int v = 0; v < INT16_VECTORS; v++)
            _mm256_storeu_si256((__m256i *)(whole ? to : some) + v, sums[i * INT16_VECTORS + v]);
        if (!whole)
            memcpy(to, some, b->count * sizeof *to);
    }
}

// A function for each number of pixels, whose loops are unrolled.
#define FUNCTION(n)                                                                                \
    AVX2 static void int16_sum_##n(const struct int16_pixels *p, const struct int16_block *b,      \
                                   size_t first, int32_t *to)                                      \
    {                                                                                              \
        int16_sum_tile(p, b, first, to, n);                                                        \
    }

FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)
FUNCTION(6)

void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums)
{
    static void (*const functions[MAX_PIXELS])(
        const struct int16_pixels *p, const struct int16_block *b, size_t first, int32_t *to) = {
        int16_sum_1, int16_sum_2, int16_sum_3, int16_sum_4, int16_sum_5, int16_sum_6};
    size_t tiles = (n + MAX_PIXELS - 1) / MAX_PIXELS;
    for (size_t first = 0, together; tiles; tiles--, first += together) {
        together = (n - first + tiles - 1) / tiles;
        functions[together - 1](p, b, first, sums);
    }
}
#else
void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums)
{
    (void)p, (void)b, (void)n, (void)sums;
    abort(); // conv_int16_fits() is never true
}
#endif
