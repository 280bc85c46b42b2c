// The inner loops of integer convolutions with NEON's dot products (conv_vnni.h has formula and
// layout): four products of two int8, added to an int32, in each of 4 lanes. The image need not be
// raised, since both are signed. A block has 16 channels, or the 8 that are left.
//
//   x[i]           = load 4 quads of pixel i                                once for 16 channels
//   weights        = load 4 bytes of each of 4 channels                     once for all pixels
//   sums[i][v]    += Σ of 4 products with quad k of x[i]                    sdot, by element
//
// Why it is fast: for the 96 sdot of a tile of 6 pixels x 16 channels it loads 16 vectors of
// weights, two by an instruction, and 6 of the image (conv_neon_tile.h). What is left of a segment
// behind its whole vectors is taken two quads at a time, and one.
//
// Sums become outputs in registers where these are narrow (conv_requantize_neon.h). Sums are exact,
// and wrap at 32 bits.
//
// Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_vnni.h"
#include "npu/sim/conv/neon/conv_neon_tile.h"
#include "npu/sim/conv/neon/conv_requantize_neon.h"

#ifdef __aarch64__
#include <sys/auxv.h>

#define NEON        __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON static inline __attribute__((always_inline, no_sanitize("undefined")))

#define QUAD (4 * NEON_LANES) // bytes of weights of a vector of channels

bool conv_vnni_has_dot(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

bool conv_vnni_requantizes(const struct conv_requant *f)
{
    return f->job->narrow;
}

#define TOGETHER 1
// Both vectors are loaded before one of them is multiplied: that is one instruction.
#define LOAD_WEIGHTS(w, at)                                                                        \
    int8x16_t one = vld1q_s8((w) + (at)*QUAD), other = vld1q_s8((w) + (at)*QUAD + 16);             \
    __asm__("" : "+w"(one), "+w"(other))
// As vdotq_laneq_s32(), but its sum stays in one register: for gcc that is an in- and an output.
#define DOT(sum, weights, x, k)                                                                    \
    __asm__("sdot %0.4s, %1.16b, %2.4b[" #k "]" : "+w"(sum) : "w"(weights), "w"(x))
#define MULTIPLY(sum, x, k)                                                                        \
    {                                                                                              \
        DOT((sum)[0], one, x, k);                                                                  \
        DOT((sum)[1], other, x, k);                                                                \
    }

NEON_INLINE int8x16_t neon_load_half(const int8_t *x)
{
    return vcombine_s8(vld1_s8(x), vdup_n_s8(0));
}

NEON_INLINE int8x16_t neon_load_quad(const int8_t *x)
{
    return vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)x));
}

NEON_INLINE void neon_sum_segment(const struct vnni_pixels *p, const int8_t *first, const int8_t *w,
                                  int32x4_t *sums, const int n, const int n_vectors)
{
    const size_t pitch = p->pitch;
    const int step = n_vectors * QUAD;
    const int8_t *at[NEON_MAX_PIXELS];
    int8x16_t x[NEON_MAX_PIXELS];
    size_t left = p->quads, done = 0;
#pragma GCC unroll 16
    for (int i = 0; i < n; i++, first += pitch)
        at[i] = first;
    for (; left >= 4; left -= 4, w += 4 * step) {
        NEON_LOAD_PIXELS(vld1q_s8, 16)
        NEON_ADD(0)
        NEON_ADD(1)
        NEON_ADD(2)
        NEON_ADD(3)
    }
    if (left & 2) {
        NEON_LOAD_PIXELS(neon_load_half, 8)
        NEON_ADD(0)
        NEON_ADD(1)
        w += 2 * step;
    }
    if (left & 1) {
        NEON_LOAD_PIXELS(neon_load_quad, 4)
        NEON_ADD(0)
    }
}

// The window sums, which are in a lane of the last vector of channels.
NEON_INLINE void neon_keep_window_sums(const struct vnni_pixels *p, size_t first,
                                       const int32x4_t *sums, const int n, const int n_vectors)
{
    const int lane = p->spare % 4;
    int32_t *to = p->window_sums + first;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        const int32x4_t *s = sums + (i * n_vectors + n_vectors - 1) * 2;
        const int32x4_t v = p->spare < 4 ? s[0] : s[1];
        int32_t lanes[4];
        vst1q_s32(lanes, v);
        to[i] = lanes[lane];
    }
}

#define ADD_WINDOW(i, windows, lane)                                                               \
    if ((i) < n)                                                                                   \
        sum[(i)*next] = vmlaq_laneq_s32(sum[(i)*next], nz, windows, lane);

// Adds nz times the window sum. Where a lane counts that, the block that has it is the first one,
// and leaves it to the others. Sums of more windows than there are pixels can be read.
NEON_INLINE void neon_add_window_sums(const struct vnni_pixels *p, size_t first, int32x4_t *sums,
                                      const int n, const int n_vectors)
{
    if (p->spare >= 0 && p->from + (size_t)n_vectors * NEON_LANES > p->channels)
        neon_keep_window_sums(p, first, sums, n, n_vectors);
    const int32_t *windows = p->window_sums + first;
    const int32x4_t few = vld1q_s32(windows), more = n > 4 ? vld1q_s32(windows + 4) : few;
#pragma GCC unroll 4
    for (int v = 0; v < 2 * n_vectors; v++) {
        const int32x4_t nz = vld1q_s32(p->nz + 4 * v);
        int32x4_t *sum = sums + v;
        const int next = 2 * n_vectors;
        ADD_WINDOW(0, few, 0)
        ADD_WINDOW(1, few, 1)
        ADD_WINDOW(2, few, 2)
        ADD_WINDOW(3, few, 3)
        ADD_WINDOW(4, more, 0)
        ADD_WINDOW(5, more, 1)
        ADD_WINDOW(6, more, 2)
        ADD_WINDOW(7, more, 3)
    }
}

// Pixels go forward: what one writes too much the next one overwrites.
NEON_INLINE void neon_store_sums(const struct vnni_pixels *p, size_t first, const int32x4_t *sums,
                                 const int n, const int n_vectors)
{
    const size_t pitch = p->channels;
    int32_t *to = p->sums + first * pitch;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++, to += pitch)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * n_vectors; v++)
            vst1q_s32(to + 4 * v, sums[i * 2 * n_vectors + v]);
}

// All outputs of a tile in doubles, of sums that are computed once more: few tiles have any that
// are open.
static void neon_requantize_exact(const struct vnni_pixels *p, size_t first, size_t n,
                                  size_t n_vectors)
{
    const size_t left = p->channels - p->from, most = n_vectors * NEON_LANES;
    const struct requant_part part = {.sums = p->sums,
                                      .pitch = p->channels,
                                      .first = p->first + first,
                                      .n = n,
                                      .from = p->from,
                                      .count = left < most ? left : most};
    struct vnni_pixels again = *p;
    for (size_t i = 0; i < p->n_segments; i++)
        again.segments[i] += first * p->pitch;
    again.window_sums += first;
    again.requant = NULL;
    conv_vnni_sum(&again, n, n_vectors);
    conv_requantize_exact(p->requant, &part);
}

NEON_INLINE void neon_requantize_tile(const struct vnni_pixels *p, size_t first,
                                      const int32x4_t *sums, const int n, const int n_vectors,
                                      const enum requant_kind kind, const bool merged)
{
    const size_t pitch = p->channels, at = (p->first + first) * pitch + p->from;
    if (!neon_store_outputs(p->requant, p->from, at, pitch, sums, n, 2 * n_vectors, kind, merged))
        neon_requantize_exact(p, first, (size_t)n, (size_t)n_vectors);
}

NEON_INLINE void neon_requantize(const struct vnni_pixels *p, size_t first, int32x4_t *sums,
                                 const int n, const int n_vectors)
{
    switch (p->requant->kind) {
    case REQUANT_PLAIN:
        if (p->requant->merged)
            neon_requantize_tile(p, first, sums, n, n_vectors, REQUANT_PLAIN, true);
        else
            neon_requantize_tile(p, first, sums, n, n_vectors, REQUANT_PLAIN, false);
        break;
    case REQUANT_LEAKY:
        neon_requantize_tile(p, first, sums, n, n_vectors, REQUANT_LEAKY, false);
        break;
    case REQUANT_ADD:
        neon_requantize_tile(p, first, sums, n, n_vectors, REQUANT_ADD, false);
        break;
    case REQUANT_LEAKY_ADD:
        neon_requantize_tile(p, first, sums, n, n_vectors, REQUANT_LEAKY_ADD, false);
        break;
    default:
        neon_requantize_tile(p, first, sums, n, n_vectors, REQUANT_FLOAT32, false);
    }
}

NEON_INLINE void neon_sum_tile(const struct vnni_pixels *p, size_t first, const int n,
                               const int n_vectors)
{
    int32x4_t sums[NEON_MAX_SUMS];
    const int8_t *w = (const int8_t *)p->weights;
    const size_t segment = p->quads * QUAD * (size_t)n_vectors;
#pragma GCC unroll 24
    for (int i = 0; i < n * n_vectors * 2; i++)
        sums[i] = vld1q_s32(p->bias + i % (n_vectors * 2) * 4);
    for (size_t i = 0; i < p->n_segments; i++, w += segment)
        neon_sum_segment(p, (const int8_t *)p->segments[i] + first * p->pitch, w, sums, n,
                         n_vectors);
    if (p->nz)
        neon_add_window_sums(p, first, sums, n, n_vectors);
    if (p->requant)
        neon_requantize(p, first, sums, n, n_vectors);
    else
        neon_store_sums(p, first, sums, n, n_vectors);
}

#define FUNCTION(n, v)                                                                             \
    NEON static void neon_dot_##n##_##v(const struct vnni_pixels *p, size_t first)                 \
    {                                                                                              \
        neon_sum_tile(p, first, n, v);                                                             \
    }
#define NAME(n, v) neon_dot_##n##_##v,

NEON_TILES_1(FUNCTION)
NEON_TILES_2(FUNCTION)

void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    static void (*const functions[][NEON_MAX_PIXELS])(const struct vnni_pixels *p, size_t first) = {
        {NEON_TILES_1(NAME)}, {NEON_TILES_2(NAME)}};
    for (size_t first = 0, count; first < n; first += count) {
        count = neon_tile_pixels(n - first, n_vectors);
        functions[n_vectors - 1][count - 1](p, first);
    }
}
#endif
