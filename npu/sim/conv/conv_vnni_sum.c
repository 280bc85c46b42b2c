// The innermost loops of convolutions with AVX512-VNNI.
#include <stdlib.h>

#include "npu/sim/conv/conv_requantize_avx512.h"
#include "npu/sim/conv/conv_vnni.h"

#ifdef __x86_64__
#define MOST 24 // sums in registers

VNNI_INLINE __m512i four_bytes(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

// Each third pixel has a pointer, the others are reached from there: so all addresses stay in
// registers.
VNNI_INLINE void sum_segment(const struct vnni_pixels *p, const int8_t *at, const uint8_t *w,
                             __m512i *sums, const int n, const int n_vectors)
{
    const int8_t *x[MOST / 3];
    size_t step = p->step;
#pragma GCC unroll 8
    for (int i = 0; i * 3 < n; i++)
        x[i] = at + (size_t)i * 3 * step;
    for (size_t quad = 0; quad < p->quads; quad++, w += 64 * n_vectors) {
        __m512i weights[VNNI_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            weights[v] = _mm512_loadu_si512(w + 64 * v);
#pragma GCC unroll 24
        for (int i = 0; i < n; i++) {
            __m512i four = four_bytes(x[i / 3] + (size_t)(i % 3) * step + 4 * quad);
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++)
                vnni_add_products(&sums[i * n_vectors + v], weights[v], four);
        }
    }
}

// Adds what belongs to the windows' sums.
VNNI_INLINE void add_windows(const struct vnni_pixels *p, size_t first, __m512i *sums, const int n,
                             const int n_vectors)
{
    __m512i lane = _mm512_set1_epi32(p->spare);
#pragma GCC unroll 24
    for (int i = 0; i < n; i++) {
        __m512i window = p->spare < 0
                             ? _mm512_set1_epi32(p->windows[first + (size_t)i])
                             : _mm512_permutexvar_epi32(lane, sums[(i + 1) * n_vectors - 1]);
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            sums[i * n_vectors + v] = _mm512_add_epi32(
                sums[i * n_vectors + v],
                _mm512_mullo_epi32(window, _mm512_loadu_si512(p->nz + v * CONV_LANES)));
    }
}

// Pixels go forward: what one has written too much the next one overwrites.
VNNI_INLINE void store(const struct vnni_pixels *p, size_t first, const __m512i *sums, const int n,
                       const int n_vectors)
{
    int32_t *to = p->sums + first * p->channels;
#pragma GCC unroll 24
    for (int i = 0; i < n; i++, to += p->channels)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            _mm512_storeu_si512(to + v * CONV_LANES, sums[i * n_vectors + v]);
}

// False: some must be counted in doubles.
VNNI_INLINE bool vnni_requantize_kind(const struct vnni_pixels *p, size_t first,
                                      const __m512i *sums, const int n, const int n_vectors,
                                      const enum requant_kind kind)
{
    const struct requant_job t = *p->finish;
    size_t step = p->channels, from = p->from, at = (p->first + first) * step + from;
    __m512i differ = _mm512_setzero_si512();
#pragma GCC unroll 24
    for (int i = 0; i < n; i++, at += step) {
        __asm__("" : "+r"(at)); // else all places are counted first, and there are no registers
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            size_t o = (size_t)v * CONV_LANES;
            const struct requant_multipliers units = requant_multipliers(&t, kind, from + o);
            __m512i stored =
                requant_sums(&t, kind, sums[i * n_vectors + v], &units, at + o, &differ);
            _mm_storeu_si128((void *)(t.dst + at + o), _mm512_cvtepi32_epi8(stored));
        }
    }
    return _mm512_test_epi32_mask(differ, differ) == 0;
}

VNNI_INLINE bool finish(const struct vnni_pixels *p, size_t first, const __m512i *sums, const int n,
                        const int n_vectors)
{
    switch (p->finish->kind) {
    case REQUANT_PLAIN:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_PLAIN);
    case REQUANT_LEAKY:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_LEAKY);
    case REQUANT_ADD:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_ADD);
    default:
        return vnni_requantize_kind(p, first, sums, n, n_vectors, REQUANT_FLOAT32);
    }
}

VNNI_INLINE bool sum(const struct vnni_pixels *p, size_t first, const int n, const int n_vectors)
{
    __m512i sums[MOST];
    const uint8_t *w = p->weights;
    size_t segment = p->quads * 64 * (size_t)n_vectors;
#pragma GCC unroll 24
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = _mm512_loadu_si512(p->bias + i % n_vectors * CONV_LANES);
    for (size_t i = 0; i < p->n_segments; i++, w += segment)
        sum_segment(p, p->segments[i] + first * p->step, w, sums, n, n_vectors);
    add_windows(p, first, sums, n, n_vectors);
    if (p->finish)
        return finish(p, first, sums, n, n_vectors);
    store(p, first, sums, n, n_vectors);
    return true;
}

// A function for each number of pixels and vectors whose sums fit the registers.
#define UP_TO_6(X, v)  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v) X(6, v)
#define UP_TO_8(X, v)  UP_TO_6(X, v) X(7, v) X(8, v)
#define UP_TO_12(X, v) UP_TO_8(X, v) X(9, v) X(10, v) X(11, v) X(12, v)
#define UP_TO_16(X, v) UP_TO_12(X, v) X(13, v) X(14, v) X(15, v) X(16, v)
#define FUNCTION(n, v)                                                                             \
    VNNI static bool sum_##n##_##v(const struct vnni_pixels *p, size_t first)                      \
    {                                                                                              \
        return sum(p, first, n, v);                                                                \
    }
#define NAME(n, v) sum_##n##_##v,

UP_TO_16(FUNCTION, 1)
UP_TO_12(FUNCTION, 2)
UP_TO_8(FUNCTION, 3)
UP_TO_6(FUNCTION, 4)

typedef bool (*sum_function)(const struct vnni_pixels *p, size_t first);

// Sums up once more, to finish in doubles.
static void finish_exactly(const struct vnni_pixels *p, size_t first, size_t n, size_t n_vectors,
                           sum_function function)
{
    struct vnni_pixels kept = *p;
    size_t left = p->channels - p->from, most = n_vectors * CONV_LANES;
    for (size_t i = 0; i < p->n_segments; i++)
        kept.segments[i] += first * p->step;
    kept.windows += first;
    kept.finish = NULL;
    function(&kept, 0);
    struct requant_part part = {.sums = p->sums,
                                .step = p->channels,
                                .first = p->first + first,
                                .n = n,
                                .from = p->from,
                                .count = left < most ? left : most};
    conv_requantize_exact(p->finish, &part);
}

void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    static const sum_function functions[VNNI_VECTORS][16] = {
        {UP_TO_16(NAME, 1)}, {UP_TO_12(NAME, 2)}, {UP_TO_8(NAME, 3)}, {UP_TO_6(NAME, 4)}};
    static const size_t most[VNNI_VECTORS] = {16, 12, 8, 6};
    size_t tiles = (n + most[n_vectors - 1] - 1) / most[n_vectors - 1];
    for (size_t first = 0; tiles; tiles--) {
        size_t together = (n - first + tiles - 1) / tiles;
        sum_function function = functions[n_vectors - 1][together - 1];
        if (!function(p, first))
            finish_exactly(p, first, together, n_vectors, function);
        first += together;
    }
}
#else
void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    (void)p, (void)n, (void)n_vectors;
    abort(); // conv_vnni_fits() is never true
}
#endif
