// What interleave.h has, with vectors that every CPU has, for elements of 2 or 4 bytes and 2 to 8
// rows. Pitches are elements.
#pragma once

#include <stddef.h>

void narrow_interleave(const void *src, ptrdiff_t pitch, size_t n, size_t columns, void *dst,
                       size_t element);
void narrow_deinterleave(const void *src, size_t rows, size_t n, void *dst, ptrdiff_t pitch,
                         size_t element);
