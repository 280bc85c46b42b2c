// Matrices that have a short side, transposed in squares by vectors of 16 bytes, which every CPU
// has: for elements of 2 bytes where there is no AVX512 (interleave.c), and of 4.
//
//   n rows (the missing ones are 0)                     one row
//     a0 a1 … a7                                          a0 b0 c0 | 0 …
//     b0 b1 … b7    log2(S) rounds of shuffles  -->       a1 b1 c1 | 0 …       n apart
//     c0 c1 … c7                                          …
//
// A square has S = 8 or 4 vectors; each round interleaves vector i with vector i + S/2. Of elements
// of 4 bytes a second square has the rows from the fifth on.
//
// Why it is fast: while there is room behind, whole vectors are read and written n elements apart,
// and what one writes too much the next one overwrites. Only the last columns are moved one by one.
//
// Tests: test_sim_fp16 and test_sim_cases_moves, with AVX2 and without; test_onnx_nodes.
#include "npu/sim/simd/interleave/interleave_narrow.h"

#include <stdint.h>
#include <string.h>

#define BYTES 16 // of a vector
#define MOST  8  // vectors of all squares

typedef uint16_t vector __attribute__((vector_size(BYTES), aligned(1), may_alias));

#define NARROW static inline __attribute__((always_inline))

// The lower or the upper halves of two vectors, element by element.
NARROW vector zip_low(vector a, vector b, const size_t element)
{
    return element == 2 ? __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
                        : __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11);
}

NARROW vector zip_high(vector a, vector b, const size_t element)
{
    return element == 2 ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                        : __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15);
}

NARROW void transpose_square(vector *v, const size_t element)
{
    const size_t side = BYTES / element;
    vector w[MOST];
#pragma GCC unroll 3
    for (size_t round = 1; round < side; round *= 2) {
#pragma GCC unroll 4
        for (size_t i = 0; i < side / 2; i++) {
            w[2 * i] = zip_low(v[i], v[i + side / 2], element);
            w[2 * i + 1] = zip_high(v[i], v[i + side / 2], element);
        }
#pragma GCC unroll 8
        for (size_t i = 0; i < side; i++)
            v[i] = w[i];
    }
}

// Bytes between rows on the side that has several, `n` of them.
struct narrow {
    const uint8_t *src;
    uint8_t *dst;
    ptrdiff_t pitch;
    size_t columns;
};

// How many columns, in whole squares, have a vector's room behind them on the side of one row.
NARROW size_t columns_with_room(const struct narrow *m, const size_t n, const size_t element)
{
    const size_t side = BYTES / element, behind = side / n + 1;
    return m->columns > behind ? (m->columns - behind) / side * side : 0;
}

NARROW void interleave_all(const struct narrow *m, const size_t n, const size_t element)
{
    const size_t side = BYTES / element, room = columns_with_room(m, n, element);
    uint8_t *to = m->dst;
    for (size_t c = 0; c < room; c += side, to += side * n * element) {
        vector v[2 * MOST];
#pragma GCC unroll 8
        for (size_t r = 0; r < MOST; r++)
            v[r] = r < n ? *(const vector *)(m->src + (ptrdiff_t)r * m->pitch + c * element)
                         : (vector){0};
#pragma GCC unroll 2
        for (size_t r = 0; r < n; r += side)
            transpose_square(v + r, element);
#pragma GCC unroll 8
        for (size_t i = 0; i < side; i++)
#pragma GCC unroll 2
            for (size_t r = 0; r < n; r += side)
                *(vector *)(to + (i * n + r) * element) = v[r + i];
    }
    for (size_t c = room; c < m->columns; c++)
#pragma GCC unroll 8
        for (size_t r = 0; r < n; r++, to += element)
            memcpy(to, m->src + (ptrdiff_t)r * m->pitch + c * element, element);
}

NARROW void deinterleave_all(const struct narrow *m, const size_t n, const size_t element)
{
    const size_t side = BYTES / element, room = columns_with_room(m, n, element);
    const uint8_t *from = m->src;
    for (size_t c = 0; c < room; c += side, from += side * n * element) {
        vector v[2 * MOST];
#pragma GCC unroll 8
        for (size_t i = 0; i < side; i++)
#pragma GCC unroll 2
            for (size_t r = 0; r < n; r += side)
                v[r + i] = *(const vector *)(from + (i * n + r) * element);
#pragma GCC unroll 2
        for (size_t r = 0; r < n; r += side)
            transpose_square(v + r, element);
#pragma GCC unroll 8
        for (size_t r = 0; r < n; r++)
            *(vector *)(m->dst + (ptrdiff_t)r * m->pitch + c * element) = v[r];
    }
    for (size_t c = room; c < m->columns; c++)
#pragma GCC unroll 8
        for (size_t r = 0; r < n; r++, from += element)
            memcpy(m->dst + (ptrdiff_t)r * m->pitch + c * element, from, element);
}

// The number of rows is a constant in each, so that they stay in registers.
#define EACH(call, element)                                                                        \
    n == 2   ? call(&m, 2, element)                                                                \
    : n == 3 ? call(&m, 3, element)                                                                \
    : n == 4 ? call(&m, 4, element)                                                                \
    : n == 5 ? call(&m, 5, element)                                                                \
    : n == 6 ? call(&m, 6, element)                                                                \
    : n == 7 ? call(&m, 7, element)                                                                \
             : call(&m, 8, element)

void narrow_interleave(const void *src, ptrdiff_t pitch, size_t n, size_t columns, void *dst,
                       size_t element)
{
    const struct narrow m = {src, dst, pitch * (ptrdiff_t)element, columns};
    if (element == 2)
        EACH(interleave_all, 2);
    else
        EACH(interleave_all, 4);
}

void narrow_deinterleave(const void *src, size_t rows, size_t n, void *dst, ptrdiff_t pitch,
                         size_t element)
{
    const struct narrow m = {src, dst, pitch * (ptrdiff_t)element, rows};
    if (element == 2)
        EACH(deinterleave_all, 2);
    else
        EACH(deinterleave_all, 4);
}
