// Narrow matrices of 16-bit elements turned round, with the permutations that AVX512 has.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// Whether the functions below may be called for matrices of so many rows, or columns.
bool interleave_fits(size_t narrow);

/// A few rows become one: dst[c * rows + r] = src[r][c]. The pitch is elements from row to row.
void interleave(const void *src, ptrdiff_t src_pitch, size_t rows, size_t columns, void *dst);

/// The other way: dst[c][r] = src[r * columns + c], with few columns.
void deinterleave(const void *src, size_t rows, size_t columns, void *dst, ptrdiff_t dst_pitch);
