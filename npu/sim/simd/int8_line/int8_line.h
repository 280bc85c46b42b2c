// What is a straight line of a table from int8 to int8, as conversions between two scales are, by a
// multiplication: a fifth of the time of a look-up where there is no AVX512-VBMI.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INT8_LINE_MIN 16 // elements of a row, at least

// y = (((x * factor >> 8) + 256 * x * half + term) >> 9) + whole * x + offset, saturated to int8:
// shifts round down.
struct int8_line {
    int16_t factor, term, whole, offset;
    int16_t half; // -1, 0 or 1
};

/// Finds numbers that give all of the table's 256 values. False: there are none, or the CPU has no
/// instructions that use them. Any thread.
bool int8_line_find(const int8_t table[256], struct int8_line *ret);

/// Rows of n elements, INT8_LINE_MIN or more, that lie x_step and y_step apart; y is not x unless n
/// is a multiple of 32. Only what int8_line_find() has found.
void int8_line_rows(const struct int8_line *l, const int8_t *x, ptrdiff_t x_step, size_t n,
                    size_t rows, int8_t *y, ptrdiff_t y_step);
