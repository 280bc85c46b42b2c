// What the kernels of conv_depthwise.c share: one line of the output, in units of a pixel, or of
// the pixels that share lanes.
#pragma once

#include "npu/sim/conv_lines.h"

#define DEPTHWISE_TOGETHER 8 // units
#define DEPTHWISE_ROWS     512

struct depthwise_line {
    const void *rows[DEPTHWISE_ROWS]; // of the image, for each row or four of the window
    const void *taps;
    const int32_t *least;     // of fours: what taps have been lowered by, for each channel
    size_t n_rows, n_columns; // of the window
    size_t column, tap;       // elements between its columns, and between taps
    size_t n, in, out;        // units; elements between neighbours
    int32_t *sums;
    /// The sums of so many units from `first` on, 1 or DEPTHWISE_TOGETHER. The last lanes of many
    /// channels are moved back so that they end where the channels end. Those of few write too
    /// much, which is overwritten by the next unit.
    void (*sum)(const struct depthwise_line *l, size_t first, size_t n);
    /// The sums of the lanes that begin at an element of the line.
    void (*sum_rest)(const struct depthwise_line *l, size_t at);
};

/// The kernel for fours of rows, with AVX512-VNNI: elements are the bytes of four lines, those of
/// taps without sign.
void depthwise_sum_fours(const struct depthwise_line *l, size_t first, size_t n);
void depthwise_rest_of_fours(const struct depthwise_line *l, size_t at);

/// Elements of n_rows lines of n bytes, or of the first four.
void depthwise_join(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to);
