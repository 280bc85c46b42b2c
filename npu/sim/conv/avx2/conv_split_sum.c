// The inner loops of integer convolutions with AVX2's multiplication of bytes (conv_vnni.h has
// what makes it exact, formula and layout).
//
// For up to 6 pixels at a time and 16 channels, or 12 and 8, and each quad of inputs:
//   products       = x0 * w0 + x1 * w1, x2 * w2 + x3 * w3      vpmaddubsw, 16 bits
//   products      += the same of the other quad of a pair      vpmaddubsw, vpaddw
//   sums[pixel]   += products[0] + products[1]                 vpmaddwd with ones, vpaddd
// then the same with the high parts of those quads in which any pixel of the tile has one.
//
// Why it is fast: 12 of the 16 registers hold sums, one is 1; weights come from memory, which the
// multiplication reads itself. Three instructions for 32 products bound it, or five for the 64 of a
// pair, not the loads: so where there are pairs, which take two registers more, tiles have 10 sums.
// Whether quads have high parts is asked for eight at a time, and comes out as bits, of which most
// are 0.
//
// Sums are exact, and wrap at 32 bits. Tests: test_sim_conv_AVX2.
#include <stdlib.h>

#include "npu/sim/conv/conv_vnni.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline, no_sanitize("undefined")))

#define MAX_SUMS     12 // vectors in registers
#define MAX_PAIRED   10 // … where quads are paired
#define VECTOR_BYTES 32
#define BITS         64 // quads that are asked for together
#define TOGETHER     4  // window sums
#define MOST_PIXELS  1024

AVX2_INLINE __m256i split_broadcast_quad(const uint8_t *x)
{
    int32_t quad_lanes;
    memcpy(&quad_lanes, x, sizeof quad_lanes);
    return _mm256_set1_epi32(quad_lanes);
}

// In assembly, since gcc loads weights once for all pixels, for which there is no register.
AVX2_INLINE __m256i split_multiply(__m256i quad, const __m256i *w)
{
    __m256i products;
    __asm__("vpmaddubsw %2, %1, %0" : "=x"(products) : "x"(quad), "m"(*w));
    return products;
}

AVX2_INLINE void split_add(__m256i *sum, __m256i products)
{
    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}

// What a tile takes of a segment: every third pixel has a pointer; the two behind it are reached by
// the addressing modes base + pitch and base + 2 * pitch, so that all addresses stay in registers.
struct split_tile {
    const uint8_t *x[MAX_SUMS / 3];
    size_t pitch;
};

AVX2_INLINE struct split_tile split_tile_at(const uint8_t *at, size_t pitch, const int n)
{
    struct split_tile t = {.pitch = pitch};
#pragma GCC unroll 4
    for (int i = 0; i * 3 < n; i++)
        t.x[i] = at + (size_t)i * 3 * pitch;
    return t;
}

// What pixel i has `byte` bytes behind the segment's beginning.
AVX2_INLINE const uint8_t *split_at(const struct split_tile *t, int i, size_t byte)
{
    return t->x[i / 3] + byte + (size_t)(i % 3) * t->pitch;
}

AVX2_INLINE void split_add_quad(const struct split_tile *t, size_t byte, const uint8_t *w,
                                __m256i *sums, const int n, const int n_vectors)
{
#pragma GCC unroll 12
    for (int i = 0; i < n; i++) {
        __m256i quad_lanes = split_broadcast_quad(split_at(t, i, byte));
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            split_add(&sums[i * n_vectors + v], split_multiply(quad_lanes, (const __m256i *)w + v));
    }
}

// Two quads whose products fit 16 bits together.
AVX2_INLINE void split_add_pair(const struct split_tile *t, size_t first, size_t second,
                                const uint8_t *w, __m256i *sums, const int n, const int n_vectors)
{
    const __m256i *weights = (const __m256i *)w;
#pragma GCC unroll 12
    for (int i = 0; i < n; i++) {
        __m256i one = split_broadcast_quad(split_at(t, i, first)),
                other = split_broadcast_quad(split_at(t, i, second));
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            split_add(&sums[i * n_vectors + v],
                      _mm256_add_epi16(split_multiply(one, weights + v),
                                       split_multiply(other, weights + n_vectors + v)));
    }
}

// Which of `count` quads, 64 at most, are not 0 in all pixels.
AVX2_INLINE uint64_t split_find_quads(const struct split_tile *t, size_t byte, size_t count,
                                      const int n)
{
    uint64_t bits = 0;
    for (size_t done = 0; done < count; done += SPLIT_LANES, byte += VECTOR_BYTES) {
        __m256i any = _mm256_setzero_si256();
#pragma GCC unroll 12
        for (int i = 0; i < n; i++) {
            any = _mm256_or_si256(any, _mm256_loadu_si256((const void *)split_at(t, i, byte)));
        }
        any = _mm256_cmpeq_epi32(any, _mm256_setzero_si256());
        uint32_t zeros = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(any));
        bits |= (uint64_t)(~zeros & 0xff) << done;
    }
    return count < BITS ? bits & (((uint64_t)1 << count) - 1) : bits;
}

// `places` of the quads' weights; NULL: they are in the image's order.
AVX2_INLINE void split_sum_high(const uint8_t *at, size_t pitch, size_t quads,
                                const uint32_t *places, const uint8_t *w, __m256i *sums,
                                const int n, const int n_vectors)
{
    const struct split_tile t = split_tile_at(at, pitch, n);
    size_t next = VECTOR_BYTES * (size_t)n_vectors;
    for (size_t first = 0; first < quads; first += BITS) {
        size_t count = quads - first < BITS ? quads - first : BITS;
        uint64_t bits = split_find_quads(&t, first * 4, count, n);
        for (; bits; bits &= bits - 1) {
            size_t quad = first + (size_t)__builtin_ctzll(bits);
            split_add_quad(&t, quad * 4, w + (places ? places[quad] : quad) * next, sums, n,
                           n_vectors);
        }
    }
}

// Pairs, then the other quads, from `quad` on.
AVX2_INLINE void split_sum_paired(const struct split_tile *t, const uint32_t *quad, size_t pairs,
                                  size_t quads, const uint8_t *w, __m256i *sums, const int n,
                                  const int n_vectors)
{
    const size_t next = VECTOR_BYTES * (size_t)n_vectors;
    const uint32_t *end = quad + quads, *singles = quad + 2 * pairs;
    for (; quad < singles; quad += 2, w += 2 * next)
        split_add_pair(t, quad[0], quad[1], w, sums, n, n_vectors);
    for (; quad < end; quad++, w += next)
        split_add_quad(t, *quad, w, sums, n, n_vectors);
}

AVX2_INLINE void split_sum_segment(const struct vnni_pixels *p, size_t segment, size_t first,
                                   const uint8_t *w, __m256i *sums, const int n,
                                   const int n_vectors, const bool paired)
{
    const uint8_t *at = p->segments[segment] + first * p->pitch;
    const struct split_tile t = split_tile_at(at, p->pitch, n);
    const size_t quads = p->quads, next = VECTOR_BYTES * (size_t)n_vectors;
    const uint32_t *places = paired ? p->order->places + segment * quads : NULL;
    if (paired)
        split_sum_paired(&t, p->order->at + segment * quads, p->order->pairs[segment], quads, w,
                         sums, n, n_vectors);
    for (size_t quad = 0; quad < quads && !paired; quad++)
        split_add_quad(&t, 4 * quad, w + quad * next, sums, n, n_vectors);
    if (p->high)
        split_sum_high(at + p->high, p->pitch, quads, places, w, sums, n, n_vectors);
}

AVX2_INLINE void split_add_window_sums(const struct vnni_pixels *p, size_t first, __m256i *sums,
                                       const int n, const int n_vectors)
{
#pragma GCC unroll 12
    for (int i = 0; i < n; i++) {
        __m256i window = _mm256_set1_epi32(p->window_sums[first + (size_t)i]);
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++) {
            __m256i nz = _mm256_loadu_si256((const __m256i *)p->nz + v);
            sums[i * n_vectors + v] =
                _mm256_add_epi32(sums[i * n_vectors + v], _mm256_mullo_epi32(window, nz));
        }
    }
}

AVX2_INLINE void split_sum_tile(const struct vnni_pixels *p, size_t first, const int n,
                                const int n_vectors, const bool paired)
{
    __m256i sums[MAX_SUMS];
    const uint8_t *w = p->weights;
    int32_t *to = p->sums + first * p->channels;
    size_t segment = p->quads * VECTOR_BYTES * (size_t)n_vectors;
#pragma GCC unroll 12
    for (int i = 0; i < n * n_vectors; i++)
        sums[i] = _mm256_loadu_si256((const __m256i *)p->bias + i % n_vectors);
    for (size_t i = 0; i < p->n_segments; i++, w += segment)
        split_sum_segment(p, i, first, w, sums, n, n_vectors, paired);
    if (p->nz)
        split_add_window_sums(p, first, sums, n, n_vectors);
#pragma GCC unroll 12
    for (int i = 0; i < n; i++, to += p->channels)
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++)
            _mm256_storeu_si256((__m256i *)to + v, sums[i * n_vectors + v]);
}

// A function for each number of pixels and vectors, whose loops are unrolled.
#define UP_TO_5(X, v)  X(1, v) X(2, v) X(3, v) X(4, v) X(5, v)
#define UP_TO_6(X, v)  UP_TO_5(X, v) X(6, v)
#define UP_TO_10(X, v) UP_TO_6(X, v) X(7, v) X(8, v) X(9, v) X(10, v)
#define UP_TO_12(X, v) UP_TO_10(X, v) X(11, v) X(12, v)
#define FUNCTION(n, v)                                                                             \
    AVX2 static void split_sum_##n##_##v(const struct vnni_pixels *p, size_t first)                \
    {                                                                                              \
        split_sum_tile(p, first, n, v, false);                                                     \
    }
#define PAIRED(n, v)                                                                               \
    AVX2 static void split_sum_paired_##n##_##v(const struct vnni_pixels *p, size_t first)         \
    {                                                                                              \
        split_sum_tile(p, first, n, v, true);                                                      \
    }
#define NAME(n, v)        split_sum_##n##_##v,
#define NAME_PAIRED(n, v) split_sum_paired_##n##_##v,

UP_TO_12(FUNCTION, 1)
UP_TO_6(FUNCTION, 2)
UP_TO_10(PAIRED, 1)
UP_TO_5(PAIRED, 2)

// Pixels are split evenly: 7 are 4 + 3, not 6 + 1.
void conv_split_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    static void (*const functions[2][SPLIT_VECTORS][MAX_SUMS])(const struct vnni_pixels *p,
                                                               size_t first) = {
        {{UP_TO_12(NAME, 1)}, {UP_TO_6(NAME, 2)}},
        {{UP_TO_10(NAME_PAIRED, 1)}, {UP_TO_5(NAME_PAIRED, 2)}}};
    const bool paired = p->order;
    size_t most = (paired ? MAX_PAIRED : MAX_SUMS) / n_vectors, tiles = (n + most - 1) / most;
    for (size_t first = 0, together; tiles; tiles--, first += together) {
        together = (n - first + tiles - 1) / tiles;
        functions[paired][n_vectors - 1][together - 1](p, first);
    }
}

// ---- window sums ----

// Of the last vector of a segment what is behind it is taken for 0.
AVX2_INLINE __m256i split_load_bytes(const uint8_t *x, size_t n)
{
    static const uint8_t within[2 * VECTOR_BYTES] = {[0 ... VECTOR_BYTES - 1] = 0xff};
    __m256i v = _mm256_loadu_si256((const void *)x);
    if (n >= VECTOR_BYTES)
        return v;
    return _mm256_and_si256(v, _mm256_loadu_si256((const void *)(within + VECTOR_BYTES - n)));
}

// Four partial sums of a window, 64 bits each, none above 32.
AVX2_INLINE __m256i split_sum_window(const struct vnni_bytes *b, size_t pixel)
{
    __m256i sum = _mm256_setzero_si256();
    for (size_t i = 0; i < b->n_segments; i++) {
        const uint8_t *x = b->x + pixel * b->pitch + i * b->apart;
        for (size_t done = 0; done < b->segment; done += VECTOR_BYTES)
            sum =
                _mm256_add_epi64(sum, _mm256_sad_epu8(split_load_bytes(x + done, b->segment - done),
                                                      _mm256_setzero_si256()));
    }
    return sum;
}

// Four windows are added across at once. The last ones are moved back so that they end where all
// end.
AVX2_INLINE void split_sum_windows(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    int32_t few[TOGETHER];
    const size_t last = n < TOGETHER ? 0 : n - TOGETHER;
    for (size_t i = 0; i < n; i += TOGETHER) {
        const size_t first = i < last ? i : last;
        __m256i v[TOGETHER];
#pragma GCC unroll 4
        for (size_t k = 0; k < TOGETHER; k++)
            v[k] = split_sum_window(b, first + k < n ? first + k : n - 1);
        __m256i one = _mm256_or_si256(v[0], _mm256_slli_epi64(v[1], 32));
        __m256i two = _mm256_or_si256(v[2], _mm256_slli_epi64(v[3], 32));
        __m256i both =
            _mm256_add_epi32(_mm256_unpacklo_epi64(one, two), _mm256_unpackhi_epi64(one, two));
        __m128i all =
            _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        _mm_storeu_si128((void *)(n < TOGETHER ? few : sums + first), all);
    }
    if (n < TOGETHER)
        memcpy(sums, few, n * sizeof *sums);
}

// Sums of pixels are made once, as many at a time as are kept.
AVX2 void conv_split_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    int32_t pixels[MOST_PIXELS];
    const struct vnni_taps taps = vnni_taps_of(b);
    if (!vnni_shares_pixels(b, VECTOR_BYTES) || taps.more >= MOST_PIXELS / 2) {
        split_sum_windows(b, n, sums);
        return;
    }
    for (size_t done = 0, count; done < n; done += count) {
        count = n - done < MOST_PIXELS - taps.more ? n - done : MOST_PIXELS - taps.more;
        const struct vnni_bytes each = {
            .x = b->x + done * b->pitch, .n_segments = 1, .segment = b->pixel, .pitch = b->pixel};
        split_sum_windows(&each, count + taps.more, pixels);
        memcpy(sums + done, pixels, count * sizeof *sums);
        for (size_t k = 1; k < taps.n; k++)
            for (size_t i = 0; i < count; i++)
                sums[done + i] += pixels[i + k * taps.apart];
    }
}
#else
void conv_split_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors)
{
    (void)p, (void)n, (void)n_vectors;
    abort(); // conv_split_fits() is never true
}

void conv_split_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    (void)b, (void)n, (void)sums;
    abort();
}
#endif
