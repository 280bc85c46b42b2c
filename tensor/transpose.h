// Transposed matrices, with the CPU's vectors.
#pragma once

#include <stddef.h>

/// dst[c][r] = src[r][c] for elements of 1, 2, 4 or 8 bytes. Pitches are bytes from row to row. The
/// two must not overlap; nothing needs to be aligned.
void transpose_matrix(const void *src, ptrdiff_t src_pitch, void *dst, ptrdiff_t dst_pitch,
                      size_t rows, size_t columns, size_t element);
