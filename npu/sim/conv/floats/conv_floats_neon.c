// The inner loops of conv_floats.h with NEON, in the way of conv_floats_avx512.c. Four floats of a
// pixel are loaded at a time, and each is multiplied as an element of their vector. Of 32 registers
// up to 24 hold sums:
//
//   vectors    1    2    3    4
//   pixels    12   10    7    6
//
// Sums begin with the bias. There is no other kernel that would have to give the same bits: without
// SVE oneDNN has its reference in plain C, so these take all convolutions in one group.
//
// Tests: test_sim_conv, test_sim_fp16 of the preset arm64.
#include "npu/sim/conv/floats/conv_floats.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define NEON_INLINE static inline __attribute__((always_inline))
#define LANES       4
#define MAX_VECTORS 4
#define MAX_PIXELS  12
#define MAX_SUMS    24

// As vfmaq_laneq_f32(), but its sum stays in one register: for gcc that is an in- and an output.
#define ADD_PRODUCTS(sum, weights, x, k)                                                           \
    __asm__("fmla %0.4s, %1.4s, %2.s[" #k "]" : "+w"(sum) : "w"(weights), "w"(x))

// One float of each pixel, element k of its vector, with its weights, which are loaded two vectors
// at a time. All loops over a tile are unrolled, since sums in an array with an index that is no
// constant are in memory.
#define ADD_FLOAT(k)                                                                               \
    _Pragma("GCC unroll 2") for (int v = 0; v < n_vectors; v += 2)                                 \
    {                                                                                              \
        const float *weights = w + ((k)*n_vectors + v) * LANES;                                    \
        float32x4_t one = vld1q_f32(weights);                                                      \
        float32x4_t other = v + 1 < n_vectors ? vld1q_f32(weights + LANES) : one;                  \
        if (v + 1 < n_vectors)                                                                     \
            __asm__("" : "+w"(one), "+w"(other)); /* both are loaded first, by one instruction */  \
        _Pragma("GCC unroll 12") for (int i = 0; i < n; i++)                                       \
        {                                                                                          \
            ADD_PRODUCTS(sums[i * n_vectors + v], one, x[i], k);                                   \
            if (v + 1 < n_vectors)                                                                 \
                ADD_PRODUCTS(sums[i * n_vectors + v + 1], other, x[i], k);                         \
        }                                                                                          \
    }

NEON_INLINE void floats_sum_segment(const struct floats_pixels *p, const float *first,
                                    const float *w, float32x4_t *sums, const int n,
                                    const int n_vectors)
{
    const size_t pitch = p->pitch, size = p->segment;
    const float *at[MAX_PIXELS];
    float32x4_t x[MAX_PIXELS];
    size_t done = 0;
#pragma GCC unroll 16
    for (int i = 0; i < n; i++, first += pitch)
        at[i] = first;
    for (; done + 4 <= size; done += 4, w += 4 * n_vectors * LANES) {
#pragma GCC unroll 12
        for (int i = 0; i < n; i++, at[i - 1] += 4)
            x[i] = vld1q_f32(at[i]);
        ADD_FLOAT(0)
        ADD_FLOAT(1)
        ADD_FLOAT(2)
        ADD_FLOAT(3)
    }
    if (size & 2) {
#pragma GCC unroll 12
        for (int i = 0; i < n; i++, at[i - 1] += 2)
            x[i] = vcombine_f32(vld1_f32(at[i]), vdup_n_f32(0));
        ADD_FLOAT(0)
        ADD_FLOAT(1)
        w += 2 * n_vectors * LANES;
    }
    if (size & 1) {
#pragma GCC unroll 12
        for (int i = 0; i < n; i++)
            x[i] = (float32x4_t){*at[i]};
        ADD_FLOAT(0)
    }
}

// y = min(max(x, low), high), low for NaN, and 0 for -0, as everywhere behind convolutions.
NEON_INLINE void floats_clamp(const struct clamp_bounds bounds, float32x4_t *sums, const int n)
{
    if (bounds.low > -INFINITY)
#pragma GCC unroll 24
        for (int i = 0; i < n; i++)
            sums[i] = vmaxnmq_f32(sums[i], vdupq_n_f32(bounds.low));
    if (bounds.high < INFINITY)
#pragma GCC unroll 24
        for (int i = 0; i < n; i++)
            sums[i] = vminq_f32(sums[i], vdupq_n_f32(bounds.high));
}

NEON_INLINE void floats_store_one(float32x4_t y, uint8_t *to, const bool fp16)
{
    if (fp16)
        vst1_u16((uint16_t *)(void *)to, vreinterpret_u16_f16(vcvt_f16_f32(y)));
    else
        vst1q_f32((float *)(void *)to, y);
}

// All channels of a pixel's vectors, two by two.
NEON_INLINE void floats_store_whole(const float32x4_t *y, uint8_t *to, const int n_vectors,
                                    const bool fp16)
{
    const size_t pair = 2 * LANES * (fp16 ? sizeof(uint16_t) : sizeof(float));
#pragma GCC unroll 2
    for (int v = 0; v + 1 < n_vectors; v += 2, to += pair)
        if (fp16) {
            const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(y[v]), y[v + 1]);
            vst1q_u16((uint16_t *)(void *)to, vreinterpretq_u16_f16(halves));
        } else {
            vst1q_f32((float *)(void *)to, y[v]);
            vst1q_f32((float *)(void *)to + LANES, y[v + 1]);
        }
    if (n_vectors % 2)
        floats_store_one(y[n_vectors - 1], to, fp16);
}

// A vector of which `left` channels exist, and others are left alone.
NEON_INLINE void floats_store_some(float32x4_t y, uint8_t *to, size_t left, const bool fp16)
{
    const float16x4_t halves = vcvt_f16_f32(y);
    if (fp16)
        memcpy(to, &halves, left * sizeof(uint16_t));
    else
        memcpy(to, &y, left * sizeof(float));
}

NEON_INLINE void floats_store_tile(const struct floats_pixels *p, size_t first, float32x4_t *sums,
                                   const int n, const int n_vectors, const bool fp16)
{
    const size_t element = fp16 ? sizeof(uint16_t) : sizeof(float), pitch = p->channels * element;
    const size_t last = (size_t)(n_vectors - 1) * LANES, left = p->left - last, room = p->whole;
    uint8_t *to = (uint8_t *)p->to + first * pitch;
    floats_clamp(p->bounds, sums, n * n_vectors);
    if (left >= LANES || first + (size_t)n <= room) {
#pragma GCC unroll 12
        for (int i = 0; i < n; i++, to += pitch)
            floats_store_whole(sums + i * n_vectors, to, n_vectors, fp16);
        return;
    }
#pragma GCC unroll 12
    for (int i = 0; i < n; i++, to += pitch) {
        floats_store_whole(sums + i * n_vectors, to, n_vectors - 1, fp16);
        if (first + (size_t)i < room)
            floats_store_one(sums[i * n_vectors + n_vectors - 1], to + last * element, fp16);
        else
            floats_store_some(sums[i * n_vectors + n_vectors - 1], to + last * element, left, fp16);
    }
}

NEON_INLINE void floats_sum_tile(const struct floats_pixels *p, size_t first, const int n,
                                 const int n_vectors)
{
    float32x4_t sums[MAX_SUMS];
    const float *w = p->weights;
#pragma GCC unroll 24
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = vld1q_f32(p->bias + i % n_vectors * LANES);
    for (size_t i = 0; i < p->n_segments; i++, w += p->segment * LANES * (size_t)n_vectors)
        floats_sum_segment(p, p->segments[i] + first * p->pitch, w, sums, n, n_vectors);
    if (p->fp16)
        floats_store_tile(p, first, sums, n, n_vectors, true);
    else
        floats_store_tile(p, first, sums, n, n_vectors, false);
}

#define UP_TO_6(X, v)  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define UP_TO_7(X, v)  UP_TO_6(X, v) X(7, v)
#define UP_TO_10(X, v) UP_TO_7(X, v) X(8, v) X(9, v) X(10, v)
#define UP_TO_12(X, v) UP_TO_10(X, v) X(11, v) X(12, v)
#define FUNCTION(n, v)                                                                             \
    static void floats_sum_##n##_##v(const struct floats_pixels *p, size_t first)                  \
    {                                                                                              \
        floats_sum_tile(p, first, n, v);                                                           \
    }
#define NAME(n, v) floats_sum_##n##_##v,

UP_TO_12(FUNCTION, 1)
UP_TO_10(FUNCTION, 2)
UP_TO_7(FUNCTION, 3)
UP_TO_6(FUNCTION, 4)

static void floats_sum_neon(const struct floats_pixels *p, size_t n, size_t n_vectors)
{
    static floats_sum *const functions[][MAX_PIXELS] = {
        {UP_TO_12(NAME, 1)}, {UP_TO_10(NAME, 2)}, {UP_TO_7(NAME, 3)}, {UP_TO_6(NAME, 4)}};
    static const size_t most[] = {12, 10, 7, 6};
    floats_sum_all(functions[n_vectors - 1], most[n_vectors - 1], p, n);
}

const struct floats_level conv_floats_neon = {
    .lanes = LANES, .vectors = MAX_VECTORS, .takes_all = true, .sum = floats_sum_neon};
#else
const struct floats_level conv_floats_neon;
#endif
