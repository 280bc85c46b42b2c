// Operations on arrays of int8 for which compilers find no good instructions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// sums[i] = x[8 * i] + … + x[8 * i + 7]
void int8_sum_eights(const int8_t *x, size_t n, int32_t *sums);

/// y[i] = table[(uint8_t)x[i]], a table of 256 bytes; y may be x.
void int8_map(const int8_t *table, const int8_t *x, size_t n, int8_t *y);

/// Whether int8_map_rows() may be called for rows of n.
bool int8_maps_rows(size_t n);

/// int8_map() of rows of n elements that lie x_step and y_step apart; y is not x.
void int8_map_rows(const int8_t *table, const int8_t *x, ptrdiff_t x_step, size_t n, size_t rows,
                   int8_t *y, ptrdiff_t y_step);

/// int8_map() is faster than a few operations on floats.
bool int8_map_is_fast(void);

/// y[i] = x[i * step], step 2 or 4.
void int8_take(const int8_t *x, size_t step, size_t n, int8_t *y);
