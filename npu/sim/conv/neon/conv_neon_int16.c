// The inner loops of integer convolutions with NEON's multiplication of int16 (conv_int16.h has
// formula and layout): for CPUs without dot products, and for groups.
//
//   x[i]           = load 8 inputs of pixel i                               once for all channels
//   weights        = load the weights of one input and 8 channels           once for all pixels
//   sums[i][v]    += 4 products with input k of x[i]                        smlal, by element
//
// Why it is fast: a tile of 6 pixels x 16 channels has 24 of the 32 registers for its sums, 6 for
// the image and two for weights; for 192 smlal it loads 16 vectors of weights, two by an
// instruction, and 6 of the image. What is left of a segment behind its whole vectors is taken
// four, two and one at a time. gcc leaves all of that in order (npu/sim/CMakeLists.txt).
//
// Sums are exact, and wrap at 32 bits. Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_int16.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline, no_sanitize("undefined")))

#define MAX_PIXELS 8 // with 8 channels; with 16 there are 6
#define MAX_SUMS   24

// Input k of all pixels' vectors.
#define ADD_INPUT(k)                                                                               \
    _Pragma("GCC unroll 2") for (int v = 0; v < n_vectors; v++)                                    \
    {                                                                                              \
        const int16x8_t weights = vld1q_s16(w + ((k)*n_vectors + v) * INT16_LANES);                \
        _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)                                        \
        {                                                                                          \
            int32x4_t *sum = sums + (i * n_vectors + v) * 2;                                       \
            sum[0] = vmlal_laneq_s16(sum[0], vget_low_s16(weights), x[i], k);                      \
            sum[1] = vmlal_high_laneq_s16(sum[1], weights, x[i], k);                               \
        }                                                                                          \
    }

// Loads a vector of each pixel, and goes on by its inputs.
#define LOAD_PIXELS(load, inputs)                                                                  \
    _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)                                            \
    {                                                                                              \
        x[i] = load;                                                                               \
        at[i] += (inputs);                                                                         \
    }

NEON_INLINE void neon_sum_segment(const struct int16_pixels *p, const int16_t *first,
                                  const int16_t *w, int32x4_t *sums, const int n,
                                  const int n_vectors)
{
    const size_t pitch = p->pitch;
    const int step = n_vectors * INT16_LANES;
    const int16_t *at[MAX_PIXELS];
    int16x8_t x[MAX_PIXELS];
    size_t left = p->joined;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        at[i] = first + (size_t)i * pitch;
    for (; left >= 8; left -= 8, w += 8 * step) {
        LOAD_PIXELS(vld1q_s16(at[i]), 8)
        ADD_INPUT(0)
        ADD_INPUT(1)
        ADD_INPUT(2)
        ADD_INPUT(3)
        ADD_INPUT(4)
        ADD_INPUT(5)
        ADD_INPUT(6)
        ADD_INPUT(7)
    }
    if (left & 4) {
        LOAD_PIXELS(vcombine_s16(vld1_s16(at[i]), vdup_n_s16(0)), 4)
        ADD_INPUT(0)
        ADD_INPUT(1)
        ADD_INPUT(2)
        ADD_INPUT(3)
        w += 4 * step;
    }
    if (left & 2) {
        LOAD_PIXELS(vreinterpretq_s16_s32(vld1q_dup_s32((const int32_t *)(const void *)at[i])), 2)
        ADD_INPUT(0)
        ADD_INPUT(1)
        w += 2 * step;
    }
    if (left & 1) {
        LOAD_PIXELS(vld1q_dup_s16(at[i]), 1)
        ADD_INPUT(0)
    }
}

NEON_INLINE void neon_sum_tile(const struct int16_pixels *p, const struct int16_block *b,
                               size_t first, int32_t *to, const int n, const int n_vectors)
{
    int32x4_t sums[MAX_SUMS];
    const int16_t *w = b->weights;
#pragma GCC unroll 24
    for (int i = 0; i < 2 * n * n_vectors; i++)
        sums[i] = vdupq_n_s32(0);
    for (size_t i = 0; i < p->n_segments; i++, w += p->joined * b->lanes)
        neon_sum_segment(p, p->segments[i] + b->image + first * p->pitch, w, sums, n, n_vectors);
    to += first * p->channels;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++, to += p->channels) {
        int32_t some[CONV_LANES];
        const bool whole = p->overwrites || b->count == b->lanes;
#pragma GCC unroll 4
        for (int v = 0; v < 2 * n_vectors; v++)
            vst1q_s32((whole ? to : some) + 4 * v, sums[i * 2 * n_vectors + v]);
        if (!whole)
            memcpy(to, some, b->count * sizeof *to);
    }
}

// A function for each number of pixels and vectors, whose loops are unrolled.
#define UP_TO_6(X, v) X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define UP_TO_8(X, v) UP_TO_6(X, v) X(7, v) X(8, v)
#define FUNCTION(n, v)                                                                             \
    static void neon_sum_##n##_##v(const struct int16_pixels *p, const struct int16_block *b,      \
                                   size_t first, int32_t *to)                                      \
    {                                                                                              \
        neon_sum_tile(p, b, first, to, n, v);                                                      \
    }
#define NAME(n, v) neon_sum_##n##_##v,

UP_TO_8(FUNCTION, 1)
UP_TO_6(FUNCTION, 2)

void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums)
{
    static void (*const functions[][MAX_PIXELS])(
        const struct int16_pixels *p, const struct int16_block *b, size_t first,
        int32_t *to) = {{UP_TO_8(NAME, 1)}, {UP_TO_6(NAME, 2)}};
    const size_t n_vectors = b->lanes / INT16_LANES, most = n_vectors > 1 ? 6 : 8;
    size_t tiles = (n + most - 1) / most;
    for (size_t first = 0, count; tiles; tiles--, first += count) {
        count = (n - first + tiles - 1) / tiles;
        functions[n_vectors - 1][count - 1](p, b, first, sums);
    }
}
#endif
