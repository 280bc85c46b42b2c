// The inner loops of integer convolutions with NEON's multiplication of int16 (conv_int16.h has
// formula and layout): for CPUs without dot products, and for groups.
//
//   x[i]           = load 8 inputs of pixel i                               once for all channels
//   weights        = load the weights of one input and 8 channels           once for all pixels
//   sums[i][v]    += 4 products with input k of x[i]                        smlal, by element
//
// Why it is fast: for the 192 smlal of a tile of 6 pixels x 16 channels it loads 16 vectors of
// weights, two by an instruction, and 6 of the image (conv_neon_tile.h). What is left of a segment
// behind its whole vectors is taken four, two and one at a time.
//
// Sums are exact, and wrap at 32 bits. Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_int16.h"
#include "npu/sim/conv/neon/conv_neon_tile.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline, no_sanitize("undefined")))

#define TOGETHER 2
// Both vectors, if there are two, are loaded before one of them is multiplied.
#define LOAD_WEIGHTS(w, at)                                                                        \
    int16x8_t one = vld1q_s16((w) + (at)*INT16_LANES);                                             \
    int16x8_t other = n_vectors > 1 ? vld1q_s16((w) + ((at) + 1) * INT16_LANES) : one;             \
    if (n_vectors > 1)                                                                             \
    __asm__("" : "+w"(one), "+w"(other))
// As vmlal_laneq_s16() and vmlal_high_laneq_s16(), but a sum stays in one register.
#define PRODUCTS(instruction, half, sum, weights, x, k)                                            \
    __asm__(instruction " %0.4s, %1." half ", %2.h[" #k "]" : "+w"(sum) : "w"(weights), "x"(x))
#define MULTIPLY(sum, x, k)                                                                        \
    {                                                                                              \
        PRODUCTS("smlal", "4h", (sum)[0], one, x, k);                                              \
        PRODUCTS("smlal2", "8h", (sum)[1], one, x, k);                                             \
        if (n_vectors > 1) {                                                                       \
            PRODUCTS("smlal", "4h", (sum)[2], other, x, k);                                        \
            PRODUCTS("smlal2", "8h", (sum)[3], other, x, k);                                       \
        }                                                                                          \
    }

NEON_INLINE int16x8_t neon_load_four(const int16_t *x)
{
    return vcombine_s16(vld1_s16(x), vdup_n_s16(0));
}

NEON_INLINE int16x8_t neon_load_two(const int16_t *x)
{
    return vreinterpretq_s16_s32(vld1q_dup_s32((const int32_t *)(const void *)x));
}

NEON_INLINE int16x8_t neon_load_one(const int16_t *x)
{
    return vld1q_dup_s16(x);
}

NEON_INLINE void neon_sum_segment(const struct int16_pixels *p, const int16_t *first,
                                  const int16_t *w, int32x4_t *sums, const int n,
                                  const int n_vectors)
{
    const size_t pitch = p->pitch;
    const int step = n_vectors * INT16_LANES;
    const int16_t *at[NEON_MAX_PIXELS];
    int16x8_t x[NEON_MAX_PIXELS];
    size_t left = p->joined, done = 0;
#pragma GCC unroll 16
    for (int i = 0; i < n; i++, first += pitch)
        at[i] = first;
    for (; left >= 8; left -= 8, w += 8 * step) {
        NEON_LOAD_PIXELS(vld1q_s16, 8)
        NEON_ADD(0)
        NEON_ADD(1)
        NEON_ADD(2)
        NEON_ADD(3)
        NEON_ADD(4)
        NEON_ADD(5)
        NEON_ADD(6)
        NEON_ADD(7)
    }
    if (left & 4) {
        NEON_LOAD_PIXELS(neon_load_four, 4)
        NEON_ADD(0)
        NEON_ADD(1)
        NEON_ADD(2)
        NEON_ADD(3)
        w += 4 * step;
    }
    if (left & 2) {
        NEON_LOAD_PIXELS(neon_load_two, 2)
        NEON_ADD(0)
        NEON_ADD(1)
        w += 2 * step;
    }
    if (left & 1) {
        NEON_LOAD_PIXELS(neon_load_one, 1)
        NEON_ADD(0)
    }
}

NEON_INLINE void neon_sum_tile(const struct int16_pixels *p, const struct int16_block *b,
                               size_t first, int32_t *to, const int n, const int n_vectors)
{
    int32x4_t sums[NEON_MAX_SUMS];
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

#define FUNCTION(n, v)                                                                             \
    static void neon_sum_##n##_##v(const struct int16_pixels *p, const struct int16_block *b,      \
                                   size_t first, int32_t *to)                                      \
    {                                                                                              \
        neon_sum_tile(p, b, first, to, n, v);                                                      \
    }
#define NAME(n, v) neon_sum_##n##_##v,

NEON_TILES_1(FUNCTION)
NEON_TILES_2(FUNCTION)

void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums)
{
    static void (*const functions[][NEON_MAX_PIXELS])(
        const struct int16_pixels *p, const struct int16_block *b, size_t first,
        int32_t *to) = {{NEON_TILES_1(NAME)}, {NEON_TILES_2(NAME)}};
    const size_t n_vectors = b->lanes / INT16_LANES;
    for (size_t first = 0, count; first < n; first += count) {
        count = neon_tile_pixels(n - first, n_vectors);
        functions[n_vectors - 1][count - 1](p, b, first, sums);
    }
}
#endif
