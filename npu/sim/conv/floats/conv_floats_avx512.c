// The inner loops of conv_floats.h with AVX512. A tile is n pixels x n_vectors;
// for each float of each segment:
//
//   weights[v]    = load a vector                      once for all pixels
//   x             = broadcast a float of pixel i       once for all vectors
//   sums[i][v]   += x * weights[v]
//
// Why it is fast: sums stay in registers, up to MAX_SUMS of them, until outputs are made of them.
// Pixels are split evenly over tiles. Loops over the tile are unrolled: there is a function for
// each size.
//
// Up to 24 of the 32 registers hold sums:
//
//   vectors    1    2    3    4
//   pixels    24   12    8    6
//
// A float of a pixel is broadcast by the load (of one vector by the multiplication itself), so that
// shuffles have no part in it. Of the last channels vectors are masked only where nothing behind
// them will be written anyway.
//
// Tests: test_sim_conv.
#include "npu/sim/conv/floats/conv_floats.h"
#include "npu/sim/simd/avx512.h"

#ifdef KERNEL_AVX512
#define MAX_SUMS    24
#define MAX_VECTORS 4
#define CACHE_LINE  64

#define PLANE_VECTORS 4 // of pixels, at a time: more than a multiplication takes cycles

// Stores with a mask are slow, so whole vectors go without.
AVX512_INLINE void floats_store(__mmask16 lanes, __m512 v, struct clamp_bounds bounds, void *to,
                                size_t o, const bool fp16)
{
    if (fp16)
        avx512_store_fp16(lanes, v, bounds, (uint16_t *)to + o);
    else if (lanes == AVX512_ALL)
        _mm512_storeu_ps((float *)to + o, avx512_clamp(bounds, v));
    else
        _mm512_mask_storeu_ps((float *)to + o, lanes, avx512_clamp(bounds, v));
}

// Constants, so that each way is a function of its own.
enum way { PLAIN, HALVES, STREAMED };

AVX512_INLINE __m512 floats_load(const uint8_t *weights, const bool halves)
{
    return halves ? avx512_load_fp16(AVX512_ALL, (const void *)weights) : _mm512_loadu_ps(weights);
}

// Adds one segment. Every third pixel has a pointer; the two behind it are reached by addressing
// modes, so that all addresses stay in registers.
AVX512_INLINE void floats_sum_segment(const struct floats_pixels *p, const float *at,
                                      const uint8_t *w, const uint8_t *ahead, size_t ahead_step,
                                      __m512 *sums, const int n, const int n_vectors,
                                      const enum way way)
{
    const float *x[(MAX_SUMS + 2) / 3];
    const bool halves = way == HALVES;
    const uint8_t *end = way == STREAMED ? ahead + ahead_step : NULL;
    const size_t pitch = p->pitch, vector = AVX512_LANES * (halves ? 2 : sizeof(float));
#pragma GCC unroll 8
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * pitch;
    for (size_t k = 0; k < p->segment; k++, w += vector * (size_t)n_vectors) {
        __m512 weights[MAX_VECTORS];
        for (; way == STREAMED && ahead < end; ahead += CACHE_LINE)
            _mm_prefetch(ahead, _MM_HINT_T1);
        if (way == STREAMED)
            end += ahead_step;
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            weights[v] = floats_load(w + vector * (size_t)v, halves);
#pragma GCC unroll 24
        for (int i = 0; i < n; i++) {
            __m512 one = _mm512_set1_ps(x[i / 3][(size_t)(i % 3) * pitch + k]);
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++)
                sums[i * n_vectors + v] = _mm512_fmadd_ps(one, weights[v], sums[i * n_vectors + v]);
        }
    }
}

// What is the same for all pixels is read before the first one is stored. Pixels go forward: what
// one writes too much the next one overwrites.
AVX512_INLINE void floats_store_tile(const struct floats_pixels *p, size_t first,
                                     const __m512 *sums, const int n, const int n_vectors,
                                     const bool fp16)
{
    const struct clamp_bounds bounds = p->bounds;
    const size_t left = p->left, step = p->channels * (fp16 ? sizeof(uint16_t) : sizeof(float));
    uint8_t *to = (uint8_t *)p->to + first * step;
    __m512 bias[MAX_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++)
        bias[v] = _mm512_loadu_ps(p->bias + AVX512_LANES * v);
#pragma GCC unroll 24
    for (int i = 0; i < n; i++, to += step) {
        __asm__("" : "+r"(to)); // else all addresses are computed first, and registers run out
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            __m512 y = _mm512_add_ps(sums[i * n_vectors + v], bias[v]);
            const size_t o = (size_t)v * AVX512_LANES;
            if (v + 1 < n_vectors || left >= o + AVX512_LANES || first + (size_t)i < p->whole)
                floats_store(AVX512_ALL, y, bounds, to, o, fp16);
            else
                floats_store(AVX512_TAIL(left - o), y, bounds, to, o, fp16);
        }
    }
}

AVX512_INLINE void floats_sum_tile(const struct floats_pixels *p, size_t first, const int n,
                                   const int n_vectors, const enum way way)
{
    __m512 sums[MAX_SUMS];
    const uint8_t *w = p->weights, *ahead = NULL;
    size_t ahead_step = 0; // for each float of the window
    const size_t vector = AVX512_LANES * (way == HALVES ? 2 : sizeof(float));
    if (way == STREAMED) {
        size_t floats = p->n_segments * p->segment;
        ahead = p->ahead + p->ahead_bytes * (p->at + first) / p->all;
        ahead_step = p->ahead_bytes * (size_t)n / p->all / floats + (p->ahead_bytes > 0);
    }
#pragma GCC unroll 24
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = _mm512_setzero_ps();
    for (size_t i = 0; i < p->n_segments; i++, w += p->segment * vector * (size_t)n_vectors) {
        if (way == STREAMED && !p->segments[i])
            continue;
        floats_sum_segment(p, p->segments[i] + first * p->pitch, w, ahead, ahead_step, sums, n,
                           n_vectors, way);
        if (way == STREAMED)
            ahead += p->segment * ahead_step;
    }
    if (p->fp16)
        floats_store_tile(p, first, sums, n, n_vectors, true);
    else
        floats_store_tile(p, first, sums, n, n_vectors, false);
}

#define UP_TO_4(X, v)  X(1, v) X(2, v) X(3, v) X(4, v)
#define UP_TO_6(X, v)  UP_TO_4(X, v) X(5, v) X(6, v)
#define UP_TO_8(X, v)  UP_TO_6(X, v) X(7, v) X(8, v)
#define UP_TO_12(X, v) UP_TO_8(X, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define UP_TO_16(X, v) UP_TO_12(X, v) X(13, v) X(14, v) X(15, v) X(16, v)
#define UP_TO_24(X, v)                                                                             \
    UP_TO_16(X, v) X(17, v) X(18, v) X(19, v) X(20, v) X(21, v) X(22, v) X(23, v) X(24, v)
#define FUNCTION(n, v)                                                                             \
    KERNEL_AVX512 static void floats_sum_##n##_##v(const struct floats_pixels *p, size_t first)    \
    {                                                                                              \
        floats_sum_tile(p, first, n, v, PLAIN);                                                    \
    }
#define FROM_HALVES(n, v)                                                                          \
    KERNEL_AVX512 static void halves_sum_##n##_##v(const struct floats_pixels *p, size_t first)    \
    {                                                                                              \
        floats_sum_tile(p, first, n, v, HALVES);                                                   \
    }
#define HALVES_NAME(n, v) halves_sum_##n##_##v,
#define AHEAD(n, v)                                                                                \
    KERNEL_AVX512 static void streamed_sum_##n##_##v(const struct floats_pixels *p, size_t first)  \
    {                                                                                              \
        floats_sum_tile(p, first, n, v, STREAMED);                                                 \
    }
#define AHEAD_NAME(n, v) streamed_sum_##n##_##v,
#define NAME(n, v)       floats_sum_##n##_##v,
#define MOST             24 // pixels

UP_TO_24(FUNCTION, 1)
UP_TO_12(FUNCTION, 2)
UP_TO_8(FUNCTION, 3)
UP_TO_6(FUNCTION, 4)

UP_TO_6(FROM_HALVES, 1)
UP_TO_6(FROM_HALVES, 2)
UP_TO_6(FROM_HALVES, 3)
UP_TO_6(FROM_HALVES, 4)

static void floats_sum_avx512(const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    static floats_sum *const functions[][MOST] = {
        {UP_TO_24(NAME, 1)}, {UP_TO_12(NAME, 2)}, {UP_TO_8(NAME, 3)}, {UP_TO_6(NAME, 4)}};
    floats_sum_all(functions[n_vectors - 1], MAX_SUMS / n_vectors, p, n);
}

UP_TO_24(AHEAD, 1)
UP_TO_12(AHEAD, 2)
UP_TO_8(AHEAD, 3)
UP_TO_6(AHEAD, 4)

static void streamed_sum_avx512(const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    static floats_sum *const functions[][MOST] = {{UP_TO_24(AHEAD_NAME, 1)},
                                                  {UP_TO_12(AHEAD_NAME, 2)},
                                                  {UP_TO_8(AHEAD_NAME, 3)},
                                                  {UP_TO_6(AHEAD_NAME, 4)}};
    floats_sum_all(functions[n_vectors - 1], MAX_SUMS / n_vectors, p, n);
}

static void halves_sum_avx512(const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    static floats_sum *const functions[][FLOATS_FEW] = {{UP_TO_6(HALVES_NAME, 1)},
                                                        {UP_TO_6(HALVES_NAME, 2)},
                                                        {UP_TO_6(HALVES_NAME, 3)},
                                                        {UP_TO_6(HALVES_NAME, 4)}};
    floats_sum_all(functions[n_vectors - 1], FLOATS_FEW, p, n);
}

// The vectors at `at` of n, of which the last one has `lanes`.
AVX512_INLINE void floats_sum_planes_at(const struct floats_pixels *p, const uint16_t *planes,
                                        size_t pitch, size_t at, const int n, const __mmask16 lanes)
{
    const float *w = p->weights;
    const struct clamp_bounds bounds = p->bounds;
    const __m512 bias = _mm512_set1_ps(*p->bias);
    __m512 sums[PLANE_VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < n; i++)
        sums[i] = _mm512_setzero_ps();
    planes += at;
    for (size_t k = 0; k < p->segment; k++, planes += pitch, w += AVX512_LANES) {
        const __m512 weight = _mm512_set1_ps(*w);
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            sums[i] = _mm512_fmadd_ps(avx512_load_fp16(lanes, planes + i * AVX512_LANES), weight,
                                      sums[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++, at += AVX512_LANES)
        if (p->fp16)
            floats_store(lanes, _mm512_add_ps(sums[i], bias), bounds, p->to, at, true);
        else
            floats_store(lanes, _mm512_add_ps(sums[i], bias), bounds, p->to, at, false);
}

KERNEL_AVX512 static void floats_sum_planes_avx512(const struct floats_pixels *p,
                                                   const uint16_t *planes, size_t pitch, size_t n)
{
    const size_t together = AVX512_LANES * (size_t)PLANE_VECTORS;
    size_t at = 0;
    for (; at + together <= n; at += together)
        floats_sum_planes_at(p, planes, pitch, at, PLANE_VECTORS, AVX512_ALL);
    for (; at + AVX512_LANES <= n; at += AVX512_LANES)
        floats_sum_planes_at(p, planes, pitch, at, 1, AVX512_ALL);
    if (at < n)
        floats_sum_planes_at(p, planes, pitch, at, 1, AVX512_TAIL(n - at));
}

const struct floats_level conv_floats_avx512 = {.lanes = AVX512_LANES,
                                                .vectors = MAX_VECTORS,
                                                .sum = floats_sum_avx512,
                                                .sum_halves = halves_sum_avx512,
                                                .sum_streamed = streamed_sum_avx512,
                                                .sum_planes = floats_sum_planes_avx512};
#else
const struct floats_level conv_floats_avx512;
#endif
