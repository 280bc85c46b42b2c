// 8-bit numbers, many at a time, where compilers find no instructions for it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// sums[i] = x[8 * i] + … + x[8 * i + 7]
void bytes_sum_eights(const int8_t *x, size_t n, int32_t *sums);

/// y[i] = table[(uint8_t)x[i]], of 256; y may be x.
void bytes_map(const int8_t *table, const int8_t *x, size_t n, int8_t *y);

/// bytes_map() is faster than a few operations on floats.
bool bytes_map_is_fast(void);

/// y[i] = x[i * step], step 2 or 4.
void bytes_take(const int8_t *x, size_t step, size_t n, int8_t *y);
