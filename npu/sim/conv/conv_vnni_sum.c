// The inner loops of integer convolutions with AVX512-VNNI (conv_vnni.h has formula and layout).
//
// A tile is n pixels x n_vectors * 16 channels. For each quad of each segment:
//   weights[v]     = load 64 bytes                     once for all pixels
//   x              = broadcast a quad of pixel i       once for all vectors
//   sums[i][v]    += Σ of 4 products                   vpdpbusd
// then the window sum times nz is added where weights have zero points, and the sums are stored, or
// requantized where they are.
//
// Why it is fast: up to 24 of the 32 registers hold sums, 4 weights, the rest a quad and constants.
//
//   vectors    1    2    3    4       loads per vpdpbusd at a full tile: 1.06, 0.58, 0.46, 0.42
//   pixels    16   12    8    6
//
// So the multiplications bound it, not the loads (one vector: about even). Pixels are split evenly
// over tiles. Loops over the tile are unrolled: there is a function for each size.
//
// Rounding: none in sums; that of conv_requantize.c in outputs. Where bounds of a pixel's outputs
// differ, its sums are kept in memory, and those outputs are computed in doubles behind the tile.
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#include <stdlib.h>

#include "npu/sim/conv/conv_requantize_avx512.h"
#include "npu/sim/conv/conv_vnni.h"

#ifdef __x86_64__
#define MAX_VECTORS 24 // of sums in registers

VNNI_INLINE __m512i vnni_broadcast_quad(const uint8_t *x)
{
    int32_t quad_lanes;
    memcpy(&quad_lanes, x, sizeof quad_lanes);
    return _mm512_set1_epi32(quad_lanes);
}

// Adds one segment. Every third pixel has a pointer; the two behind it are reached by the
// addressing modes base + pitch and base + 2 * pitch, so that all addresses stay in registers.
VNNI_INLINE void vnni_sum_segment(const struct vnni_pixels *p, const uint8_t *at, const uint8_t *w,
                                  __m512i *sums, const int n, const int n_vectors)
{
    const uint8_t *x[MAX_VECTORS / 3];
    size_t pitch = p->pitch;
#pragma GCC unroll 8
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * pitch;
    for (size_t quad = 0; quad < p->quads; quad++, w += 64 * n_vectors) {
        __m512i weights[VNNI_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            weights[v] = _mm512_loadu_si512(w + 64 * v);
#pragma GCC unroll 24
        for (int i = 0; i < n; i++) {
            __m512i quad_lanes = vnni_broadcast_quad(x[i / 3] + (size_t)(i % 3) * pitch + 4 * quad);
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++)
                vnni_add_products(&sums[i * n_vectors + v], quad_lanes, weights[v]);
        }
    }
}

// Adds nz times the window sum, which is in a lane of the last vector, or in memory.
VNNI_INLINE void vnni_add_window_sums(const struct vnni_pixels *p, size_t first, __m512i *sums,
                                      const int n, const int n_vectors)
{
    __m512i lane = _mm512_set1_epi32(p->spare);
#pragma GCC unroll 24
    for (int i = 0; i < n; i++) {
        __m512i window = p->spare < 0
                             ? _mm512_set1_epi32(p->window_sums[first + (size_t)i])
                             : _mm512_permutexvar_epi32(lane, sums[(i + 1) * n_vectors - 1]);
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            sums[i * n_vectors + v] = _mm512_add_epi32(
                sums[i * n_vectors + v],
                _mm512_mullo_epi32(window, _mm512_loadu_si512(p->nz + v * CONV_LANES)));
    }
}

// Pixels go forward: what one writes too much the next one overwrites.
VNNI_INLINE void vnni_store_sums(const struct vnni_pixels *p, size_t first, const __m512i *sums,
                                 const int n, const int n_vectors)
{
    int32_t *to = p->sums + first * p->channels;
#pragma GCC unroll 24
    for (int i = 0; i < n; i++, to += p->channels)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            _mm512_storeu_si512(to + v * CONV_LANES, sums[i * n_vectors + v]);
}

VNNI_INLINE void vnni_keep_pixel(const struct vnni_pixels *p, const __m512i *sums, const int i,
                                 const int n_vectors)
{
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++)
        _mm512_storeu_si512(p->sums + (size_t)i * p->channels + v * CONV_LANES,
                            sums[i * n_vectors + v]);
}

// Bits are set of the pixels that have outputs which must be computed in doubles.
VNNI_INLINE uint32_t vnni_requantize_kind(const struct vnni_pixels *p, size_t first,
                                          const __m512i *sums, const int n, const int n_vectors,
                                          const enum requant_kind kind)
{
    const struct requant_job t = *p->requant;
    size_t pitch = p->channels, from = p->from, at = (p->first + first) * pitch + from;
    uint32_t open = 0;
#pragma GCC unroll 24
    for (int i = 0; i < n; i++, at += pitch) {
        __m512i differ = _mm512_setzero_si512();
        __asm__("" : "+r"(at)); // else all addresses are computed first, and registers run out
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            size_t o = (size_t)v * CONV_LANES;
            const struct requant_lane_factors factors = requant_lane_factors(&t, kind, from + o);
            __m512i stored =
                requant_sums(&t, kind, sums[i * n_vectors + v], &factors, at + o, &differ);
            _mm_storeu_si128((void *)(t.dst + at + o), _mm512_cvtepi32_epi8(stored));
        }
        if (requant_is_leaky(kind) && _mm512_test_epi32_mask(differ, differ)) {
            open |= 1u << i;
            vnni_keep_pixel(p, sums, i, n_vectors);
        }
    }
    return open;
}

VNNI_INLINE uint32_t vnni_requantize(const struct vnni_pixels *p, size_t first, const __m512i *sums,
                                     const int n, const int n_vectors)
{
    switch (p->requant->kind) {
    case REQUANT_PLAIN:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_PLAIN);
    case REQUANT_LEAKY:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_LEAKY);
    case REQUANT_ADD:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_ADD);
    case REQUANT_LEAKY_ADD:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_LEAKY_ADD);
    default:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_FLOAT32);
    }
}

VNNI_INLINE uint32_t vnni_sum_tile(const struct vnni_pixels *p, size_t first, const int n,
                                   const int n_vectors)
{
    __m512i sums[MAX_VECTORS];
    const uint8_t *w = p->weights;
    size_t segment = p->quads * 64 * (size_t)n_vectors;
#pragma GCC unroll 24
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = _mm512_loadu_si512(p->bias + i % n_vectors * CONV_LANES);
    for (size_t i = 0; i < p->n_segments; i++, w += segment)
        vnni_sum_segment(p, p->segments[i] + first * p->pitch, w, sums, n, n_vectors);
    if (p->nz)
        vnni_add_window_sums(p, first, sums, n, n_vectors);
    if (p->requant)
        return vnni_requantize(p, first, sums, n, n_vectors);
    vnni_store_sums(p, first, sums, n, n_vectors);
    return 0;
}

// A function for each number of pixels and vectors whose sums fit the registers.
#define UP_TO_6(X, v)  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define UP_TO_8(X, v)  UP_TO_6(X, v) X(7, v) X(8, v)
#define UP_TO_12(X, v) UP_TO_8(X, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define UP_TO_16(X, v) UP_TO_12(X, v) X(13, v) X(14, v) X(15, v) X(16, v)
#define FUNCTION(n, v)                                                                             \
    VNNI static uint32_t vnni_sum_##n##_##v(const struct vnni_pixels *p, size_t first)             \
    {                                                                                              \
        return vnni_sum_tile(p, first, n, v);                                                      \
    }
#define NAME(n, v) vnni_sum_##n##_##v,

UP_TO_16(FUNCTION, 1)
UP_TO_12(FUNCTION, 2)
UP_TO_8(FUNCTION, 3)
UP_TO_6(FUNCTION, 4)

typedef uint32_t (*vnni_sum_function)(const struct vnni_pixels *p, size_t first);

// The outputs of these pixels of a tile that floats leave open.
static void vnni_close_pixels(const struct vnni_pixels *p, size_t first, uint32_t open,
                              size_t n_vectors)
{
    size_t left = p->channels - p->from, most = n_vectors * CONV_LANES;
    for (; open; open &= open - 1) {
        size_t i = (size_t)__builtin_ctz(open);
        struct requant_part part = {.sums = p->sums + i * p->channels,
                                    .first = p->first + first + i,
                                    .n = 1,
                                    .from = p->from,
                                    .count = left < most ? left : most};
        conv_requantize_open(p->requant, &part);
    }
}

void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    static const vnni_sum_function functions[VNNI_VECTORS][16] = {
        {UP_TO_16(NAME, 1)}, {UP_TO_12(NAME, 2)}, {UP_TO_8(NAME, 3)}, {UP_TO_6(NAME, 4)}};
    static const size_t max_pixels[VNNI_VECTORS] = {16, 12, 8, 6};
    size_t tiles = (n + max_pixels[n_vectors - 1] - 1) / max_pixels[n_vectors - 1];
    for (size_t first = 0; tiles; tiles--) {
        size_t count = (n - first + tiles - 1) / tiles;
        vnni_sum_function function = functions[n_vectors - 1][count - 1];
        vnni_close_pixels(p, first, function(p, first), n_vectors);
        first += count;
    }
}

bool conv_vnni_has_dot(void)
{
    return dnn_has_vnni();
}

bool conv_vnni_requantizes(const struct conv_requant *f)
{
    return f->vectors;
}
#elif !defined(__aarch64__) // neon/conv_neon_sum.c
bool conv_vnni_has_dot(void)
{
    return false;
}

bool conv_vnni_requantizes(const struct conv_requant *f)
{
    (void)f;
    return false;
}

void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    (void)p, (void)n, (void)n_vectors;
    abort(); // conv_vnni_fits() is never true
}
#endif
