// The inner loops of integer convolutions with NEON's dot products (conv_vnni.h has formula and
// layout): four products of two int8, added to an int32, in each of 4 lanes. The image need not be
// raised, since both are signed.
//
//   x              = load 4 quads of pixel i                                once for 16 channels
//   weights        = load 4 bytes of each of 4 channels                     once for all pixels
//   sums[i][v]    += Σ of 4 products with quad k of x                       sdot, by element
//
// Why it is fast: a tile of 5 pixels x 16 channels has 20 of the 32 registers for its sums, 4 for
// weights and 5 for the image; for 80 sdot it loads 16 vectors of weights and 5 of the image. What
// is left of a segment behind its whole vectors is taken quad by quad.
//
// Sums are exact, and wrap at 32 bits. Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_vnni.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <sys/auxv.h>

#define NEON        __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON static inline __attribute__((always_inline, no_sanitize("undefined")))

#define VECTORS    4 // of 4 channels: CONV_LANES
#define MAX_PIXELS 5

bool conv_vnni_has_dot(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

// What a tile is computed from: its first pixel in each segment, and weights that are `quad` bytes
// apart from quad to quad.
struct tile {
    const struct vnni_pixels *p;
    const int8_t *weights;
    size_t first, quad;
    const int32_t *bias, *nz; // nz: NULL: there are none
    int32_t *windows;         // the pixels' window sums
    bool counts;              // a lane counts these
};

#define ADD_QUAD(k)                                                                                \
    for (int v = 0; v < VECTORS; v++)                                                              \
        weights[v] = vld1q_s8(w + (k)*quad + 16 * v);                                              \
    for (int i = 0; i < n; i++)                                                                    \
        for (int v = 0; v < VECTORS; v++)                                                          \
    sums[i * VECTORS + v] = vdotq_laneq_s32(sums[i * VECTORS + v], weights[v], x[i], k)

NEON_INLINE void neon_sum_segment(const struct tile *t, const int8_t *at, const int8_t *w,
                                  int32x4_t *sums, const int n)
{
    const size_t pitch = t->p->pitch, quad = t->quad, quads = t->p->quads;
    int8x16_t x[MAX_PIXELS], weights[VECTORS];
    size_t done = 0;
    for (; done + 4 <= quads; done += 4, at += 16, w += 4 * quad) {
        for (int i = 0; i < n; i++)
            x[i] = vld1q_s8(at + (size_t)i * pitch);
        ADD_QUAD(0);
        ADD_QUAD(1);
        ADD_QUAD(2);
        ADD_QUAD(3);
    }
    for (; done < quads; done++, at += 4, w += quad) {
        for (int i = 0; i < n; i++) {
            int32_t four;
            memcpy(&four, at + (size_t)i * pitch, sizeof four);
            x[i] = vreinterpretq_s8_s32(vdupq_n_s32(four));
        }
        ADD_QUAD(0);
    }
}

// Adds nz times the window sum, which is in a lane of the last vectors, or known.
NEON_INLINE void neon_add_window_sums(const struct tile *t, int32x4_t *sums, const int n)
{
    for (int i = 0; i < n; i++) {
        if (t->counts) {
            int32_t lanes[CONV_LANES];
            for (int v = 0; v < VECTORS; v++)
                vst1q_s32(lanes + 4 * v, sums[i * VECTORS + v]);
            t->windows[i] = lanes[t->p->spare];
        }
        for (int v = 0; v < VECTORS; v++)
            sums[i * VECTORS + v] =
                vmlaq_n_s32(sums[i * VECTORS + v], vld1q_s32(t->nz + 4 * v), t->windows[i]);
    }
}

// 16 channels of n pixels. Pixels go forward: what one writes too much the next one overwrites.
NEON_INLINE void neon_sum_tile(const struct tile *t, int32_t *to, const int n)
{
    const struct vnni_pixels *p = t->p;
    int32x4_t sums[MAX_PIXELS * VECTORS];
    const int8_t *w = t->weights;
    for (int i = 0; i < n * VECTORS; i++)
        sums[i] = vld1q_s32(t->bias + i % VECTORS * 4);
    for (size_t i = 0; i < p->n_segments; i++, w += p->quads * t->quad)
        neon_sum_segment(t, (const int8_t *)p->segments[i] + t->first * p->pitch, w, sums, n);
    if (t->nz)
        neon_add_window_sums(t, sums, n);
    for (int i = 0; i < n; i++, to += p->channels)
        for (int v = 0; v < VECTORS; v++)
            vst1q_s32(to + 4 * v, sums[i * VECTORS + v]);
}

#define FUNCTION(n)                                                                                \
    NEON static void neon_sum_##n(const struct tile *t, int32_t *to)                               \
    {                                                                                              \
        neon_sum_tile(t, to, n);                                                                   \
    }

FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)

// The last channels first: what they write too much the next pixel's first ones overwrite, and the
// window sum is counted by them.
static void neon_sum_vectors(const struct vnni_pixels *p, size_t first, size_t count,
                             size_t n_vectors)
{
    static void (*const functions[MAX_PIXELS])(const struct tile *t, int32_t *to) = {
        neon_sum_1, neon_sum_2, neon_sum_3, neon_sum_4, neon_sum_5};
    int32_t windows[MAX_PIXELS] = {0};
    if (p->nz && p->spare < 0)
        memcpy(windows, p->window_sums + first, count * sizeof *windows);
    for (size_t v = n_vectors; v--;) {
        size_t from = v * CONV_LANES;
        const struct tile t = {.p = p,
                               .weights = (const int8_t *)p->weights + 4 * from,
                               .first = first,
                               .quad = n_vectors * CONV_LANES * 4,
                               .bias = p->bias + from,
                               .nz = p->nz ? p->nz + from : NULL,
                               .windows = windows,
                               .counts = p->spare >= 0 && v == n_vectors - 1};
        functions[count - 1](&t, p->sums + first * p->channels + from);
    }
}

void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    size_t tiles = (n + MAX_PIXELS - 1) / MAX_PIXELS;
    for (size_t first = 0, count; tiles; tiles--, first += count) {
        count = (n - first + tiles - 1) / tiles;
        neon_sum_vectors(p, first, count, n_vectors);
    }
}

// Bytes of one segment, 16 at a time: products with ones. The rest one by one.
NEON_INLINE int32_t neon_sum_bytes(const int8_t *x, size_t n, int32x4_t *sums)
{
    int32_t rest = 0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        *sums = vdotq_s32(*sums, vld1q_s8(x + i), vdupq_n_s8(1));
    for (; i < n; i++)
        rest += x[i];
    return rest;
}

NEON void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    for (size_t i = 0; i < n; i++) {
        int32x4_t many = vdupq_n_s32(0);
        int32_t rest = 0;
        for (size_t k = 0; k < b->n_segments; k++)
            rest += neon_sum_bytes((const int8_t *)b->x + i * b->pitch + k * b->apart, b->segment,
                                   &many);
        sums[i] = vaddvq_s32(many) + rest;
    }
}
#endif
