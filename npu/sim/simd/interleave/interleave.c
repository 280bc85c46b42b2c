// Matrices that have a short side, transposed: with AVX512's permutations of two vectors, else by
// interleave_narrow.h. Of elements of 2 bytes, and likewise of 4, of which a vector has 16:
//
//   n rows of 32 elements (n vectors)              one row of 32 * n (n vectors)
//     a0 a1 a2 … a31                               a0 b0 c0 a1 b1 c1 a2 …
//     b0 b1 b2 … b31        interleave -->         … (vector 1)
//     c0 c1 c2 … c31       <-- deinterleave        … (vector 2)
//
// Each of the n vectors out takes lanes of each of the n in: one vpermt2w for each pair of vectors
// in (a lane's index chooses one of 64), masked to the lanes that come from that pair, and an "or".
//
// Why it is fast: n loads, n stores and about n * n / 2 permutations for 32 * n elements,
// everything in registers, with no partial stores. From 9 vectors on squares (tensor/transpose.h)
// take less time.
//
// Tests: test_sim_fp16 (GRAPH_TRANSPOSE, GRAPH_RESHAPE), test_sim_cases_moves.
#include "npu/sim/simd/interleave/interleave.h"

#include <stdint.h>

#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/interleave/interleave_narrow.h"

#define MAX_SIDE 8 // vectors in registers, of the matrix's short side

bool interleave_fits(size_t side, size_t element)
{
    return (element == 2 || element == 4) && side > 1 && side <= MAX_SIDE;
}

#ifdef KERNEL_AVX512
#define LANES(element) (64 / (element)) // of a vector
#define MAX_LANES      32

// The matrix: n rows of `length` elements, `pitch` bytes apart, on one side (src when
// interleaving); on the other one row of all of them.
struct strip {
    const uint8_t *src;
    uint8_t *dst;
    ptrdiff_t pitch;
    size_t length;
};

// How one vector out is made of the n vectors in.
struct pick {
    __m512i lanes;                 // an index into both vectors of a pair
    __mmask32 pairs[MAX_SIDE / 2]; // the lanes that come from each pair
};

// Of lanes that come from `vectors` of the n, and there from `elements`.
AVX512_INLINE struct pick interleave_pick_halves(__m512i vectors, __m512i elements)
{
    struct pick p;
    __m512i second = _mm512_and_si512(vectors, _mm512_set1_epi16(1));
    p.lanes = _mm512_add_epi16(elements, _mm512_slli_epi16(second, 5));
    for (int i = 0; i < MAX_SIDE / 2; i++)
        p.pairs[i] =
            _mm512_cmpeq_epi16_mask(_mm512_srli_epi16(vectors, 1), _mm512_set1_epi16((short)i));
    return p;
}

AVX512_INLINE struct pick interleave_pick_words(__m512i vectors, __m512i elements)
{
    struct pick p;
    __m512i second = _mm512_and_si512(vectors, _mm512_set1_epi32(1));
    p.lanes = _mm512_add_epi32(elements, _mm512_slli_epi32(second, 4));
    for (int i = 0; i < MAX_SIDE / 2; i++)
        p.pairs[i] = _mm512_cmpeq_epi32_mask(_mm512_srli_epi32(vectors, 1), _mm512_set1_epi32(i));
    return p;
}

// For the i-th vector out: where each lane comes from.
AVX512_INLINE struct pick interleave_find_pick(const bool interleaves, size_t i, size_t n,
                                               const size_t element)
{
    const size_t lanes = LANES(element);
    uint16_t vectors[MAX_LANES] = {0}, elements[MAX_LANES] = {0};
    for (size_t k = 0; k < lanes; k++) {
        size_t at = interleaves ? i * lanes + k : k * n + i;
        vectors[k] = (uint16_t)(interleaves ? at % n : at / lanes);
        elements[k] = (uint16_t)(interleaves ? at / n : at % lanes);
    }
    if (element == 2)
        return interleave_pick_halves(_mm512_loadu_si512(vectors), _mm512_loadu_si512(elements));
    return interleave_pick_words(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)vectors)),
                                 _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)elements)));
}

AVX512_INLINE __m512i interleave_permute(__mmask32 lanes, __m512i a, __m512i indices, __m512i b,
                                         const size_t element)
{
    return element == 2 ? _mm512_maskz_permutex2var_epi16(lanes, a, indices, b)
                        : _mm512_maskz_permutex2var_epi32((__mmask16)lanes, a, indices, b);
}

AVX512_INLINE __m512i interleave_gather(const struct pick *p, const __m512i *from, const size_t n,
                                        const size_t element)
{
    __m512i v = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i += 2)
        v = _mm512_or_si512(v, interleave_permute(p->pairs[i / 2], from[i], p->lanes,
                                                  from[i + 1 < n ? i + 1 : i], element));
    return v;
}

// The lanes of the i-th of n vectors that exist, in one row or in a row each, when `left` elements
// of each row are left: all of them are fewer than a vector's.
AVX512_INLINE __mmask32 interleave_lanes(const bool one_row, size_t i, size_t n, size_t left,
                                         const size_t element)
{
    const size_t lanes = LANES(element), before = i * lanes;
    size_t there = !one_row ? left : left * n > before ? left * n - before : 0;
    return there < lanes ? (1u << there) - 1 : UINT32_MAX;
}

AVX512_INLINE __m512i interleave_load(__mmask32 lanes, const uint8_t *src, const size_t element)
{
    return element == 2 ? _mm512_maskz_loadu_epi16(lanes, src)
                        : _mm512_maskz_loadu_epi32((__mmask16)lanes, src);
}

AVX512_INLINE void interleave_store(__mmask32 lanes, __m512i v, uint8_t *dst, const size_t element)
{
    if (element == 2)
        _mm512_mask_storeu_epi16(dst, lanes, v);
    else
        _mm512_mask_storeu_epi32(dst, (__mmask16)lanes, v);
}

AVX512_INLINE void interleave_vectors(const struct pick *picks, const struct strip *m, size_t at,
                                      const size_t n, const bool interleaves, const bool whole,
                                      const size_t element)
{
    __m512i in[MAX_SIDE];
    size_t left = m->length - at;
    const uint8_t *src = m->src + (interleaves ? at : at * n) * element;
    uint8_t *dst = m->dst + (interleaves ? at * n : at) * element;
    const ptrdiff_t vector = sizeof *in, src_pitch = interleaves ? m->pitch : vector,
                    dst_pitch = interleaves ? vector : m->pitch;
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++, src += src_pitch)
        in[i] = whole ? _mm512_loadu_si512(src)
                      : interleave_load(interleave_lanes(!interleaves, i, n, left, element), src,
                                        element);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++, dst += dst_pitch)
        if (whole)
            _mm512_storeu_si512(dst, interleave_gather(&picks[i], in, n, element));
        else
            interleave_store(interleave_lanes(interleaves, i, n, left, element),
                             interleave_gather(&picks[i], in, n, element), dst, element);
}

AVX512_INLINE void interleave_all(const struct strip *m, const size_t n, const bool interleaves,
                                  const size_t element)
{
    struct pick picks[MAX_SIDE];
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        picks[i] = interleave_find_pick(interleaves, i, n, element);
    for (; at + LANES(element) <= m->length; at += LANES(element))
        interleave_vectors(picks, m, at, n, interleaves, true, element);
    if (at < m->length)
        interleave_vectors(picks, m, at, n, interleaves, false, element);
}

// The number of vectors is a constant in each, so that they stay in registers.
#define EACH(interleaves, element)                                                                 \
    n == 2   ? interleave_all(m, 2, interleaves, element)                                          \
    : n == 3 ? interleave_all(m, 3, interleaves, element)                                          \
    : n == 4 ? interleave_all(m, 4, interleaves, element)                                          \
    : n == 5 ? interleave_all(m, 5, interleaves, element)                                          \
    : n == 6 ? interleave_all(m, 6, interleaves, element)                                          \
    : n == 7 ? interleave_all(m, 7, interleaves, element)                                          \
             : interleave_all(m, 8, interleaves, element)

KERNEL_AVX512 static void interleave_halves(const struct strip *m, size_t n)
{
    EACH(true, 2);
}

KERNEL_AVX512 static void deinterleave_halves(const struct strip *m, size_t n)
{
    EACH(false, 2);
}

KERNEL_AVX512 static void interleave_words(const struct strip *m, size_t n)
{
    EACH(true, 4);
}

KERNEL_AVX512 static void deinterleave_words(const struct strip *m, size_t n)
{
    EACH(false, 4);
}
#endif

void interleave_rows(const void *src, ptrdiff_t src_pitch, size_t rows, size_t columns, void *dst,
                     size_t element)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512()) {
        const struct strip m = {src, dst, src_pitch * (ptrdiff_t)element, columns};
        (element == 2 ? interleave_halves : interleave_words)(&m, rows);
        return;
    }
#endif
    narrow_interleave(src, src_pitch, rows, columns, dst, element);
}

void deinterleave_rows(const void *src, size_t rows, size_t columns, void *dst, ptrdiff_t dst_pitch,
                       size_t element)
{
#ifdef KERNEL_AVX512
    if (kernel_has_avx512()) {
        const struct strip m = {src, dst, dst_pitch * (ptrdiff_t)element, rows};
        (element == 2 ? deinterleave_halves : deinterleave_words)(&m, columns);
        return;
    }
#endif
    narrow_deinterleave(src, rows, columns, dst, dst_pitch, element);
}
