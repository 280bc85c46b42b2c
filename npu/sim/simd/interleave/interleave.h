// Matrices of elements of 2 or 4 bytes that have a short side, transposed: n rows to one and back.
// Nothing needs to be aligned.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// Whether the functions below may be called for matrices whose short side is `side`.
bool interleave_fits(size_t side, size_t element);

/// Few rows become one: dst[c * rows + r] = src[r][c]. The pitch is elements from row to row.
void interleave_rows(const void *src, ptrdiff_t src_pitch, size_t rows, size_t columns, void *dst,
                     size_t element);

/// The other way, with few columns: dst[c][r] = src[r * columns + c].
void deinterleave_rows(const void *src, size_t rows, size_t columns, void *dst, ptrdiff_t dst_pitch,
                       size_t element);
