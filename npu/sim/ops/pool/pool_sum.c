// Sums of floats in the order that results are defined by, and of bytes in any: of taps that lie
// apart, and of pixels that follow each other. Vectors are no larger than a register of AVX2 (of
// NEON elsewhere): compilers leave sums in memory that are. Taps that lie apart, of which each is
// one addition, have a loop for AVX512. Tested by test_sim_pool, test_sim_cases_pool,
// test_onnx_nodes and test_onnx_against.
#include <string.h>

#include "npu/sim/ops/pool/pool.h"
#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/kernel.h"

#ifdef KERNEL_AVX2
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define VECTOR  (VECTOR_BYTES / sizeof(float))
#define SHORTS  (VECTOR_BYTES / sizeof(int16_t))
#define VECTORS 4 // that are added to in turn: a sum takes a while until it can be

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t shorts __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t bytes_of_shorts __attribute__((vector_size(VECTOR_BYTES / 2)));

// VECTORS or fewer beside each other, as a constant: then sums are registers.
static inline __attribute__((always_inline)) void
taps_add_vectors(float *y, const struct pool_windows *w, size_t at, const int vectors)
{
    vector sums[VECTORS] = {0}, v;
    for (size_t t = 0; t < w->n_taps; t++) {
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++) {
            memcpy(&v, w->taps[t] + at + (size_t)k * VECTOR, sizeof v);
            sums[k] += v;
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        memcpy(y + (size_t)k * VECTOR, &sums[k], sizeof v);
}

// One window's, or those of all of them where they follow each other: n elements from `at` on.
static inline __attribute__((always_inline)) void
taps_add_window(float *y, const struct pool_windows *w, size_t at, size_t n)
{
    size_t i = 0;
    for (; i + VECTORS * VECTOR <= n; i += VECTORS * VECTOR)
        taps_add_vectors(y + i, w, at + i, VECTORS);
    for (; i + VECTOR <= n; i += VECTOR)
        taps_add_vectors(y + i, w, at + i, 1);
    for (; i < n; i++) {
        float sum = 0;
        for (size_t t = 0; t < w->n_taps; t++)
            sum += w->taps[t][at + i];
        y[i] = sum;
    }
}

KERNEL(void, taps_add, (float *y, const struct pool_windows *w), (y, w))
{
    if (w->step == w->channels) {
        taps_add_window(y, w, 0, w->n * w->channels);
        return;
    }
    for (size_t k = 0; k < w->n; k++)
        taps_add_window(y + k * w->channels, w, k * w->step, w->channels);
}

#ifdef KERNEL_AVX512
AVX512_INLINE void taps_add_lanes(float *y, const struct pool_windows *w, size_t at,
                                  const int vectors, const __mmask16 lanes)
{
    __m512 sums[VECTORS];
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        sums[k] = _mm512_setzero_ps();
    for (size_t t = 0; t < w->n_taps; t++) {
        const float *tap = w->taps[t] + at;
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            sums[k] = _mm512_add_ps(sums[k], _mm512_maskz_loadu_ps(lanes, tap + k * AVX512_LANES));
    }
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        if (lanes == AVX512_ALL)
            _mm512_storeu_ps(y + k * AVX512_LANES, sums[k]);
        else
            _mm512_mask_storeu_ps(y + k * AVX512_LANES, lanes, sums[k]);
}

// As taps_add().
KERNEL_AVX512 static void taps_add_512(float *y, const struct pool_windows *w)
{
    const bool follow = w->step == w->channels;
    const size_t windows = follow ? 1 : w->n, n = follow ? w->n * w->channels : w->channels;
    for (size_t k = 0; k < windows; k++) {
        float *to = y + k * w->channels;
        size_t i = 0, at = k * w->step;
        for (; i + VECTORS * AVX512_LANES <= n; i += VECTORS * AVX512_LANES)
            taps_add_lanes(to + i, w, at + i, VECTORS, AVX512_ALL);
        for (; i + AVX512_LANES <= n; i += AVX512_LANES)
            taps_add_lanes(to + i, w, at + i, 1, AVX512_ALL);
        if (i < n)
            taps_add_lanes(to + i, w, at + i, 1, AVX512_TAIL(n - i));
    }
}
#endif

void pool_add_taps(float *y, const struct pool_windows *w)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512()) {
        taps_add_512(y, w);
        return;
    }
#endif
    taps_add(y, w);
}

// The same of pixels behind each other, on from what y holds.
static inline __attribute__((always_inline)) void
pixels_add_vectors(float *y, const float *x, size_t n_pixels, size_t channels, const int vectors)
{
    vector sums[VECTORS], v;
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        memcpy(&sums[k], y + (size_t)k * VECTOR, sizeof v);
    for (size_t p = 0; p < n_pixels; p++, x += channels) {
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++) {
            memcpy(&v, x + (size_t)k * VECTOR, sizeof v);
            sums[k] += v;
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        memcpy(y + (size_t)k * VECTOR, &sums[k], sizeof v);
}

KERNEL(void, pixels_add, (float *sums, const float *x, size_t n_pixels, size_t channels),
       (sums, x, n_pixels, channels))
{
    size_t i = 0;
    for (; i + VECTORS * VECTOR <= channels; i += VECTORS * VECTOR)
        pixels_add_vectors(sums + i, x + i, n_pixels, channels, VECTORS);
    for (; i + VECTOR <= channels; i += VECTOR)
        pixels_add_vectors(sums + i, x + i, n_pixels, channels, 1);
    for (; i < channels; i++)
        for (size_t p = 0; p < n_pixels; p++)
            sums[i] += x[p * channels + i];
}

void pool_add_pixels(float *sums, const float *x, size_t n_pixels, size_t channels)
{
    pixels_add(sums, x, n_pixels, channels);
}

#define HELD 256 // bytes whose sum 16 bits hold

// Up to HELD pixels: their sums fit 16 bits, and are widened once.
static inline __attribute__((always_inline)) void
bytes_add_vectors(int32_t *y, const int8_t *x, size_t n_pixels, size_t channels, const int vectors)
{
    shorts sums[VECTORS] = {0};
    for (size_t p = 0; p < n_pixels; p++, x += channels) {
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++) {
            bytes_of_shorts v;
            memcpy(&v, x + (size_t)k * SHORTS, sizeof v);
            sums[k] += __builtin_convertvector(v, shorts);
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        for (size_t i = 0; i < SHORTS; i++)
            y[(size_t)k * SHORTS + i] += sums[k][i];
}

KERNEL(void, bytes_add, (int32_t * sums, const int8_t *x, size_t n_pixels, size_t channels),
       (sums, x, n_pixels, channels))
{
    size_t i = 0;
    for (; i + VECTORS * SHORTS <= channels; i += VECTORS * SHORTS)
        bytes_add_vectors(sums + i, x + i, n_pixels, channels, VECTORS);
    for (; i + SHORTS <= channels; i += SHORTS)
        bytes_add_vectors(sums + i, x + i, n_pixels, channels, 1);
    for (; i < channels; i++)
        for (size_t p = 0; p < n_pixels; p++)
            sums[i] += x[p * channels + i];
}

void pool_add_bytes(int32_t *sums, const int8_t *x, size_t n_pixels, size_t channels)
{
    for (size_t p = 0; p < n_pixels; p += HELD)
        bytes_add(sums, x + p * channels, n_pixels - p < HELD ? n_pixels - p : HELD, channels);
}
