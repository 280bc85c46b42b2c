// Matrices that have a short side, transposed: of elements of 2 bytes with AVX512's permutations of
// two vectors, else by interleave_narrow.h.
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
// Tests: test_sim_fp16 (GRAPH_TRANSPOSE, GRAPH_RESHAPE).
#include "npu/sim/simd/interleave/interleave.h"

#include <stdint.h>

#include "npu/sim/simd/avx512.h"
#include "npu/sim/simd/interleave/interleave_narrow.h"

#define MAX_SIDE 8  // vectors in registers, of the matrix's short side
#define LANES    32 // of a vector

bool interleave_fits(size_t side, size_t element)
{
    return (element == 2 || element == 4) && side > 1 && side <= MAX_SIDE;
}

#ifdef KERNEL_AVX512
// The matrix: n rows of `length` elements, `pitch` elements apart, on one side (src when
// interleaving); on the other one row of all of them.
struct strip {
    const uint16_t *src;
    uint16_t *dst;
    ptrdiff_t pitch;
    size_t length;
};

// How one vector out is made of the n vectors in.
struct pick {
    __m512i lanes;                 // an index into both vectors of a pair, 0 to 63
    __mmask32 pairs[MAX_SIDE / 2]; // the lanes that come from each pair
};

AVX512_INLINE struct pick interleave_pick(__m512i vector, __m512i element)
{
    struct pick p;
    __m512i second = _mm512_and_si512(vector, _mm512_set1_epi16(1));
    p.lanes = _mm512_add_epi16(element, _mm512_mullo_epi16(second, _mm512_set1_epi16(LANES)));
    for (int i = 0; i < MAX_SIDE / 2; i++)
        p.pairs[i] =
            _mm512_cmpeq_epi16_mask(_mm512_srli_epi16(vector, 1), _mm512_set1_epi16((short)i));
    return p;
}

// For the i-th vector out: where each lane comes from.
AVX512_INLINE struct pick interleave_find_pick(const bool interleaves, size_t i, size_t n)
{
    uint16_t vectors[LANES], elements[LANES];
    for (size_t k = 0; k < LANES; k++) {
        size_t at = interleaves ? i * LANES + k : k * n + i;
        vectors[k] = (uint16_t)(interleaves ? at % n : at / LANES);
        elements[k] = (uint16_t)(interleaves ? at / n : at % LANES);
    }
    return interleave_pick(_mm512_loadu_si512(vectors), _mm512_loadu_si512(elements));
}

AVX512_INLINE __m512i interleave_gather(const struct pick *p, const __m512i *from, const size_t n)
{
    __m512i v = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i += 2)
        v = _mm512_or_si512(v, _mm512_maskz_permutex2var_epi16(p->pairs[i / 2], from[i], p->lanes,
                                                               from[i + 1 < n ? i + 1 : i]));
    return v;
}

// The lanes of a vector that exist when `left` elements are left.
AVX512_INLINE __mmask32 interleave_lanes_of(size_t left)
{
    return left < LANES ? (1u << left) - 1 : UINT32_MAX;
}

// The lanes of the i-th of n vectors that lie in one row, or in a row each.
AVX512_INLINE __mmask32 interleave_lanes_in(const bool one_row, size_t i, size_t n, size_t left)
{
    size_t before = i * LANES;
    return interleave_lanes_of(!one_row ? left : left * n > before ? left * n - before : 0);
}

AVX512_INLINE void interleave_vectors(const struct pick *picks, const struct strip *m, size_t at,
                                      const size_t n, const bool interleaves, const bool whole)
{
    __m512i in[MAX_SIDE];
    size_t left = m->length - at;
    const uint16_t *src = m->src + (interleaves ? at : at * n);
    uint16_t *dst = m->dst + (interleaves ? at * n : at);
    ptrdiff_t src_pitch = interleaves ? m->pitch : LANES,
              dst_pitch = interleaves ? LANES : m->pitch;
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++, src += src_pitch)
        in[i] = whole
                    ? _mm512_loadu_si512(src)
                    : _mm512_maskz_loadu_epi16(interleave_lanes_in(!interleaves, i, n, left), src);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++, dst += dst_pitch)
        if (whole)
            _mm512_storeu_si512(dst, interleave_gather(&picks[i], in, n));
        else
            _mm512_mask_storeu_epi16(dst, interleave_lanes_in(interleaves, i, n, left),
                                     interleave_gather(&picks[i], in, n));
}

AVX512_INLINE void interleave_all(const struct strip *m, const size_t n, const bool interleaves)
{
    struct pick picks[MAX_SIDE];
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        picks[i] = interleave_find_pick(interleaves, i, n);
    for (; at + LANES <= m->length; at += LANES)
        interleave_vectors(picks, m, at, n, interleaves, true);
    if (at < m->length)
        interleave_vectors(picks, m, at, n, interleaves, false);
}

// The number of vectors is a constant in each, so that they stay in registers.
#define EACH(interleaves)                                                                          \
    n == 2   ? interleave_all(&m, 2, interleaves)                                                  \
    : n == 3 ? interleave_all(&m, 3, interleaves)                                                  \
    : n == 4 ? interleave_all(&m, 4, interleaves)                                                  \
    : n == 5 ? interleave_all(&m, 5, interleaves)                                                  \
    : n == 6 ? interleave_all(&m, 6, interleaves)                                                  \
    : n == 7 ? interleave_all(&m, 7, interleaves)                                                  \
             : interleave_all(&m, 8, interleaves)

KERNEL_AVX512 static void interleave_halves(const void *src, ptrdiff_t src_pitch, size_t n,
                                            size_t columns, void *dst)
{
    const struct strip m = {src, dst, src_pitch, columns};
    EACH(true);
}

KERNEL_AVX512 static void deinterleave_halves(const void *src, size_t rows, size_t n, void *dst,
                                              ptrdiff_t dst_pitch)
{
    const struct strip m = {src, dst, dst_pitch, rows};
    EACH(false);
}
#endif

void interleave_rows(const void *src, ptrdiff_t src_pitch, size_t rows, size_t columns, void *dst,
                     size_t element)
{
#ifdef KERNEL_AVX512
    if (element == 2 && kernel_has_avx512()) {
        interleave_halves(src, src_pitch, rows, columns, dst);
        return;
    }
#endif
    narrow_interleave(src, src_pitch, rows, columns, dst, element);
}

void deinterleave_rows(const void *src, size_t rows, size_t columns, void *dst, ptrdiff_t dst_pitch,
                       size_t element)
{
#ifdef KERNEL_AVX512
    if (element == 2 && kernel_has_avx512()) {
        deinterleave_halves(src, rows, columns, dst, dst_pitch);
        return;
    }
#endif
    narrow_deinterleave(src, rows, columns, dst, dst_pitch, element);
}
