// The inner loops of integer convolutions with NEON's dot products (conv_vnni.h has formula and
// layout): four products of two int8, added to an int32, in each of 4 lanes. The image need not be
// raised, since both are signed. A block has 16 channels.
//
//   x[i]           = load 4 quads of pixel i                                once for 16 channels
//   weights        = load 4 bytes of each of 4 channels                     once for all pixels
//   sums[i][v]    += Σ of 4 products with quad k of x[i]                    sdot, by element
//
// Why it is fast: a tile of 6 pixels x 16 channels has 24 of the 32 registers for its sums, 6 for
// the image and two for weights; for 96 sdot it loads 16 vectors of weights, two by an instruction,
// and 6 of the image. The loops over a tile are unrolled, and gcc leaves them in this order
// (npu/sim/CMakeLists.txt). What is left of a segment behind its whole vectors is taken two quads
// at a time, and one.
//
// Sums become outputs in registers where these are narrow (conv_requantize_neon.h); a LeakyRelu's
// are stored before, for those that are open. Sums are exact, and wrap at 32 bits.
//
// Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_vnni.h"
#include "npu/sim/conv/neon/conv_requantize_neon.h"

#ifdef __aarch64__
#include <sys/auxv.h>

#define NEON        __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON static inline __attribute__((always_inline, no_sanitize("undefined")))

#define VECTORS    4 // of 4 channels: CONV_LANES
#define MAX_PIXELS 6
#define MAX_SUMS   24
#define QUAD       (4 * CONV_LANES) // bytes of weights

bool conv_vnni_has_dot(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

bool conv_vnni_requantizes(const struct conv_requant *f)
{
    return f->job->narrow;
}

// Quad k of all pixels' vectors.
#define ADD_QUAD(k)                                                                                \
    _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v += 2)                                   \
    {                                                                                              \
        const int8x16_t one = vld1q_s8(w + (k)*QUAD + 16 * v);                                     \
        const int8x16_t other = vld1q_s8(w + (k)*QUAD + 16 * v + 16);                              \
        _Pragma("GCC unroll 6") for (int i = 0; i < n; i++)                                        \
        {                                                                                          \
            int32x4_t *sum = sums + i * VECTORS + v;                                               \
            sum[0] = vdotq_laneq_s32(sum[0], one, x[i], k);                                        \
            sum[1] = vdotq_laneq_s32(sum[1], other, x[i], k);                                      \
        }                                                                                          \
    }

// Loads a vector of each pixel, and goes on by its bytes.
#define LOAD_PIXELS(load, bytes)                                                                   \
    _Pragma("GCC unroll 6") for (int i = 0; i < n; i++)                                            \
    {                                                                                              \
        x[i] = load;                                                                               \
        at[i] += (bytes);                                                                          \
    }

NEON_INLINE void neon_sum_segment(const struct vnni_pixels *p, const int8_t *first, const int8_t *w,
                                  int32x4_t *sums, const int n)
{
    const size_t pitch = p->pitch;
    const int8_t *at[MAX_PIXELS];
    int8x16_t x[MAX_PIXELS];
    size_t left = p->quads;
#pragma GCC unroll 6
    for (int i = 0; i < n; i++)
        at[i] = first + (size_t)i * pitch;
    for (; left >= 4; left -= 4, w += 4 * QUAD) {
        LOAD_PIXELS(vld1q_s8(at[i]), 16)
        ADD_QUAD(0)
        ADD_QUAD(1)
        ADD_QUAD(2)
        ADD_QUAD(3)
    }
    if (left & 2) {
        LOAD_PIXELS(vcombine_s8(vld1_s8(at[i]), vdup_n_s8(0)), 8)
        ADD_QUAD(0)
        ADD_QUAD(1)
        w += 2 * QUAD;
    }
    if (left & 1) {
        LOAD_PIXELS(vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)at[i])), 4)
        ADD_QUAD(0)
    }
}

// The window sums, which are in a lane of one of the vectors.
NEON_INLINE void neon_keep_window_sums(const struct vnni_pixels *p, size_t first,
                                       const int32x4_t *sums, const int n)
{
    const int vector = p->spare / 4, lane = p->spare % 4;
    int32_t *to = p->window_sums + first;
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) {
        const int32x4_t *s = sums + i * VECTORS;
        const int32x4_t v = vector == 0 ? s[0] : vector == 1 ? s[1] : vector == 2 ? s[2] : s[3];
        int32_t lanes[4];
        vst1q_s32(lanes, v);
        to[i] = lanes[lane];
    }
}

// Adds nz times the window sum. Where a lane counts that, the block that has it is the first one,
// and leaves it to the others.
NEON_INLINE void neon_add_window_sums(const struct vnni_pixels *p, size_t first, int32x4_t *sums,
                                      const int n)
{
    if (p->spare >= 0 && p->from + CONV_LANES > p->channels)
        neon_keep_window_sums(p, first, sums, n);
    const int32_t *windows = p->window_sums + first;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        const int32x4_t nz = vld1q_s32(p->nz + 4 * v);
#pragma GCC unroll 6
        for (int i = 0; i < n; i++)
            sums[i * VECTORS + v] = vmlaq_n_s32(sums[i * VECTORS + v], nz, windows[i]);
    }
}

// Pixels go forward: what one writes too much the next one overwrites.
NEON_INLINE void neon_store_sums(const struct vnni_pixels *p, size_t first, const int32x4_t *sums,
                                 const int n)
{
    const size_t pitch = p->channels;
    int32_t *to = p->sums + first * pitch;
#pragma GCC unroll 6
    for (int i = 0; i < n; i++, to += pitch)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            vst1q_s32(to + 4 * v, sums[i * VECTORS + v]);
}

// All outputs of a tile in doubles, of sums that were stored.
static void neon_requantize_exact(const struct vnni_pixels *p, size_t first, size_t n)
{
    const size_t left = p->channels - p->from;
    const struct requant_part part = {.sums = p->sums,
                                      .pitch = p->channels,
                                      .first = p->first + first,
                                      .n = n,
                                      .from = p->from,
                                      .count = left < CONV_LANES ? left : CONV_LANES};
    conv_requantize_exact(p->requant, &part);
}

NEON_INLINE void neon_requantize_tile(const struct vnni_pixels *p, size_t first,
                                      const int32x4_t *sums, const int n,
                                      const enum requant_kind kind, const bool merged)
{
    const size_t pitch = p->channels, at = (p->first + first) * pitch + p->from;
    if (requant_is_leaky(kind))
        neon_store_sums(p, 0, sums, n);
    if (!neon_store_outputs(p->requant, p->from, at, pitch, sums, n, kind, merged))
        neon_requantize_exact(p, first, (size_t)n);
}

NEON_INLINE void neon_requantize(const struct vnni_pixels *p, size_t first, int32x4_t *sums,
                                 const int n)
{
    switch (p->requant->kind) {
    case REQUANT_PLAIN:
        if (p->requant->merged)
            neon_requantize_tile(p, first, sums, n, REQUANT_PLAIN, true);
        else
            neon_requantize_tile(p, first, sums, n, REQUANT_PLAIN, false);
        break;
    case REQUANT_LEAKY:
        neon_requantize_tile(p, first, sums, n, REQUANT_LEAKY, false);
        break;
    case REQUANT_ADD:
        neon_requantize_tile(p, first, sums, n, REQUANT_ADD, false);
        break;
    case REQUANT_LEAKY_ADD:
        neon_requantize_tile(p, first, sums, n, REQUANT_LEAKY_ADD, false);
        break;
    default:
        neon_requantize_tile(p, first, sums, n, REQUANT_FLOAT32, false);
    }
}

// 16 channels of n pixels.
NEON_INLINE void neon_sum_tile(const struct vnni_pixels *p, size_t first, const int n)
{
    int32x4_t sums[MAX_SUMS];
    const int8_t *w = (const int8_t *)p->weights;
#pragma GCC unroll 24
    for (int i = 0; i < n * VECTORS; i++)
        sums[i] = vld1q_s32(p->bias + i % VECTORS * 4);
    for (size_t i = 0; i < p->n_segments; i++, w += p->quads * QUAD)
        neon_sum_segment(p, (const int8_t *)p->segments[i] + first * p->pitch, w, sums, n);
    if (p->nz)
        neon_add_window_sums(p, first, sums, n);
    if (p->requant)
        neon_requantize(p, first, sums, n);
    else
        neon_store_sums(p, first, sums, n);
}

#define FUNCTION(n)                                                                                \
    NEON static void neon_sum_##n(const struct vnni_pixels *p, size_t first)                       \
    {                                                                                              \
        neon_sum_tile(p, first, n);                                                                \
    }

FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)
FUNCTION(6)

void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    static void (*const functions[MAX_PIXELS])(const struct vnni_pixels *p, size_t first) = {
        neon_sum_1, neon_sum_2, neon_sum_3, neon_sum_4, neon_sum_5, neon_sum_6};
    (void)n_vectors; // VNNI_VECTORS: 1
    size_t tiles = (n + MAX_PIXELS - 1) / MAX_PIXELS;
    for (size_t first = 0, count; tiles; tiles--, first += count) {
        count = (n - first + tiles - 1) / tiles;
        functions[count - 1](p, first);
    }
}

#define FEW 4 // pixels whose bytes are summed together

// Bytes of a segment of each of n pixels, 16 and 8 at a time: products with ones. The rest one by
// one.
NEON_INLINE void neon_sum_bytes(const int8_t *x, size_t pitch, size_t size, int32x4_t *sums,
                                int32_t *rest, const size_t n)
{
    size_t at = 0;
    for (; at + 16 <= size; at += 16)
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            sums[i] = vdotq_s32(sums[i], vld1q_s8(x + i * pitch + at), vdupq_n_s8(1));
    for (; at + 8 <= size; at += 8)
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++) {
            const int8x16_t half = vcombine_s8(vld1_s8(x + i * pitch + at), vdup_n_s8(0));
            sums[i] = vdotq_s32(sums[i], half, vdupq_n_s8(1));
        }
    for (; at < size; at++)
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            rest[i] += x[i * pitch + at];
}

NEON_INLINE void neon_sum_pixels(const struct vnni_bytes *b, size_t first, int32_t *to,
                                 const size_t n)
{
    int32x4_t sums[FEW] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
    int32_t rest[FEW] = {0};
    for (size_t k = 0; k < b->n_segments; k++)
        neon_sum_bytes((const int8_t *)b->x + first * b->pitch + k * b->apart, b->pitch, b->segment,
                       sums, rest, n);
    const int32x4_t whole = vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
    vst1q_s32(to + first, vaddq_s32(whole, vld1q_s32(rest)));
}

// Behind the last sum there is room for more.
NEON void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    size_t i = 0;
    for (; i + FEW <= n; i += FEW)
        neon_sum_pixels(b, i, sums, FEW);
    for (; i < n; i++)
        neon_sum_pixels(b, i, sums, 1);
}
#endif
