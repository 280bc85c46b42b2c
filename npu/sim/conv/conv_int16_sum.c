// The innermost loops of convolutions with AVX2.
#include <stdlib.h>

#include "npu/sim/conv/conv_int16.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline, no_sanitize("undefined")))

#define VECTORS 2 // of 8 sums: CONV_LANES
#define MOST    6 // pixels: so many sums fit the registers

AVX2_INLINE __m256i two_words(const int16_t *x)
{
    int32_t two;
    memcpy(&two, x, sizeof two);
    return _mm256_set1_epi32(two);
}

// Each third pixel has a pointer, the others are reached from there: so all addresses stay in
// registers.
AVX2_INLINE void sum_segment(const struct int16_pixels *p, const int16_t *at, const int16_t *w,
                             __m256i *sums, const int n)
{
    const int16_t *x[MOST / 3];
    size_t step = p->step;
#pragma GCC unroll 2
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * step;
    for (size_t pair = 0; pair < p->pairs; pair++, w += 2 * CONV_LANES) {
        __m256i weights[VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            weights[v] = _mm256_loadu_si256((const __m256i *)w + v);
#pragma GCC unroll 6
        for (int i = 0; i < n; i++) {
            __m256i two = two_words(x[i / 3] + (size_t)(i % 3) * step + 2 * pair);
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++)
                sums[i * VECTORS + v] =
                    _mm256_add_epi32(sums[i * VECTORS + v], _mm256_madd_epi16(weights[v], two));
        }
    }
}

AVX2_INLINE void sum(const struct int16_pixels *p, const struct int16_block *b, size_t first,
                     int32_t *to, const int n)
{
    __m256i sums[MOST * VECTORS];
    const int16_t *w = b->weights;
#pragma GCC unroll 12
    for (int i = 0; i < n * VECTORS; i++)
        sums[i] = _mm256_setzero_si256();
    for (size_t i = 0; i < p->n_segments; i++, w += p->pairs * CONV_LANES * 2)
        sum_segment(p, p->segments[i] + b->image + first * p->step, w, sums, n);
    to += first * p->channels;
#pragma GCC unroll 6
    for (int i = 0; i < n; i++, to += p->channels) {
        int32_t some[CONV_LANES];
        bool whole = b->count == CONV_LANES;
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            _mm256_storeu_si256((__m256i *)(whole ? to : some) + v, sums[i * VECTORS + v]);
        if (!whole)
            memcpy(to, some, b->count * sizeof *to);
    }
}

// A function for each number of pixels.
#define FUNCTION(n)                                                                                \
    AVX2 static void sum_##n(const struct int16_pixels *p, const struct int16_block *b,            \
                             size_t first, int32_t *to)                                            \
    {                                                                                              \
        sum(p, b, first, to, n);                                                                   \
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
    static void (*const functions[MOST])(const struct int16_pixels *p, const struct int16_block *b,
                                         size_t first,
                                         int32_t *to) = {sum_1, sum_2, sum_3, sum_4, sum_5, sum_6};
    size_t tiles = (n + MOST - 1) / MOST;
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
