// The inner loops of conv_floats.h with AVX2, in the way of conv_floats_avx512.c, whose comments
// say more. Of 16 registers up to 12 hold sums:
//
//   vectors    1    2
//   pixels    12    6
//
// Sums begin with the bias, as oneDNN's do with AVX2.
//
// Tests: test_sim_conv, test_sim_fp16.
#include "npu/sim/conv/floats/conv_floats.h"

#include <math.h>

#include "npu/sim/simd/avx2.h"

#ifdef KERNEL_AVX2
#define MAX_SUMS    12
#define MAX_VECTORS 2

// Every third pixel has a pointer, so that all addresses stay in registers.
AVX2_INLINE void floats_sum_segment(const struct floats_pixels *p, const float *at, const float *w,
                                    __m256 *sums, const int n, const int n_vectors)
{
    const float *x[(MAX_SUMS + 2) / 3];
    const size_t pitch = p->pitch;
#pragma GCC unroll 4
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * pitch;
#pragma GCC unroll 4
    for (size_t k = 0; k < p->segment; k++, w += AVX2_LANES * n_vectors) {
        __m256 weights[MAX_VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            weights[v] = _mm256_loadu_ps(w + AVX2_LANES * v);
#pragma GCC unroll 12
        for (int i = 0; i < n; i++) {
            __m256 one = _mm256_broadcast_ss(x[i / 3] + (size_t)(i % 3) * pitch + k);
#pragma GCC unroll 2
            for (int v = 0; v < n_vectors; v++)
                sums[i * n_vectors + v] = _mm256_fmadd_ps(one, weights[v], sums[i * n_vectors + v]);
        }
    }
}

// The first n lanes, n < 8.
AVX2_INLINE __m256i floats_first_lanes(size_t n)
{
    static const int32_t within[2 * AVX2_LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(within + AVX2_LANES - n));
}

// A vector of which `left` channels exist; `whole`: what is behind them will be overwritten.
AVX2_INLINE void floats_store(__m256 y, const struct clamp_bounds bounds, uint8_t *to, size_t left,
                              const bool whole, const bool fp16)
{
    uint16_t halves[AVX2_LANES];
    if (fp16 && whole) {
        avx2_store_fp16(y, bounds, (uint16_t *)(void *)to);
    } else if (whole) {
        _mm256_storeu_ps((float *)(void *)to, avx2_clamp(bounds, y));
    } else if (fp16) {
        avx2_store_fp16(y, bounds, halves);
        memcpy(to, halves, left * sizeof *halves);
    } else {
        _mm256_maskstore_ps((float *)(void *)to, floats_first_lanes(left), avx2_clamp(bounds, y));
    }
}

AVX2_INLINE void floats_store_tile(const struct floats_pixels *p, size_t first, const __m256 *sums,
                                   const int n, const int n_vectors, const bool fp16)
{
    const float low = p->bounds.low;
    const struct clamp_bounds above = {-INFINITY, p->bounds.high};
    const size_t left = p->left, element = fp16 ? sizeof(uint16_t) : sizeof(float);
    uint8_t *to = (uint8_t *)p->to + first * p->channels * element;
#pragma GCC unroll 12
    for (int i = 0; i < n; i++, to += p->channels * element)
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++) {
            __m256 y = sums[i * n_vectors + v];
            const size_t o = (size_t)v * AVX2_LANES;
            if (low > -INFINITY) // as oneDNN's Relu and Clip: the bound also for NaN, and 0 for -0
                y = _mm256_max_ps(y, _mm256_set1_ps(low));
            const bool whole =
                v + 1 < n_vectors || left >= o + AVX2_LANES || first + (size_t)i < p->whole;
            floats_store(y, above, to + o * element, whole ? AVX2_LANES : left - o, whole, fp16);
        }
}

AVX2_INLINE void floats_sum_tile(const struct floats_pixels *p, size_t first, const int n,
                                 const int n_vectors)
{
    __m256 sums[MAX_SUMS];
    const float *w = p->weights;
#pragma GCC unroll 12
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = _mm256_loadu_ps(p->bias + i % n_vectors * AVX2_LANES);
    for (size_t i = 0; i < p->n_segments; i++, w += p->segment * AVX2_LANES * (size_t)n_vectors)
        floats_sum_segment(p, p->segments[i] + first * p->pitch, w, sums, n, n_vectors);
    if (p->fp16)
        floats_store_tile(p, first, sums, n, n_vectors, true);
    else
        floats_store_tile(p, first, sums, n, n_vectors, false);
}

#define UP_TO_6(X, v)  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define UP_TO_12(X, v) UP_TO_6(X, v) X(7, v) X(8, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define FUNCTION(n, v)                                                                             \
    KERNEL_AVX2 static void floats_sum_##n##_##v(const struct floats_pixels *p, size_t first)      \
    {                                                                                              \
        floats_sum_tile(p, first, n, v);                                                           \
    }
#define NAME(n, v) floats_sum_##n##_##v,

UP_TO_12(FUNCTION, 1)
UP_TO_6(FUNCTION, 2)

static void floats_sum_avx2(const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    static floats_sum *const functions[][MAX_SUMS] = {{UP_TO_12(NAME, 1)}, {UP_TO_6(NAME, 2)}};
    floats_sum_all(functions[n_vectors - 1], MAX_SUMS / n_vectors, p, n);
}

const struct floats_level conv_floats_avx2 = {.lanes = AVX2_LANES,
                                              .vectors = MAX_VECTORS,
                                              .channels = AVX2_LANES,
                                              .takes_groups = true,
                                              .sum = floats_sum_avx2};
#else
const struct floats_level conv_floats_avx2;
#endif
