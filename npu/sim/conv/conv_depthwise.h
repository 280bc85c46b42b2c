// What the kernels of conv_depthwise.c share: one line of the output, in units of a pixel, or of as
// many pixels as fill lanes.
#pragma once

#include "npu/sim/conv/conv_lines.h"

#define DEPTHWISE_UNROLL 8 // units
#define DEPTHWISE_TAPS   512

struct depthwise_line {
    const void *sources[DEPTHWISE_TAPS]; // in the image, under each tap of the first unit; or fours
    const void *taps;
    const int32_t *tap_min;     // of fours: what taps have been lowered by, for each channel
    size_t n_taps, tap;         // tap: elements from one to the next
    size_t n, in, out;          // units; elements between neighbours
    size_t size;                // elements of the output: less than another unit may be left
    void *to;                   // sums, or halves of the output
    struct clamp_bounds bounds; // of halves
    void (*sum)(const struct depthwise_line *l); // the whole line
};

/// Calls `sum` for all of the line: for n neighbouring units, 1 or DEPTHWISE_UNROLL, from the
/// elements `in` and `out` on, the CONV_LANES elements that begin at the o-th of each. The last of
/// many units are moved back so that they end where the line ends, and so are the last lanes of
/// many channels. Those of few write too much, which is overwritten by the next unit.
static inline __attribute__((always_inline)) void
depthwise_each(const struct depthwise_line *l,
               void (*sum)(const struct depthwise_line *l, size_t in, size_t out, size_t o, int n))
{
    const size_t many = DEPTHWISE_UNROLL;
    for (size_t from = 0; from < l->out; from += CONV_LANES) {
        size_t last = l->out < CONV_LANES ? 0 : l->out - CONV_LANES, o = from < last ? from : last;
        size_t i = 0;
        for (; i + many <= l->n; i += many)
            sum(l, i * l->in, i * l->out, o, DEPTHWISE_UNROLL);
        if (i < l->n && l->n >= many) {
            sum(l, (l->n - many) * l->in, (l->n - many) * l->out, o, DEPTHWISE_UNROLL);
            i = l->n;
        }
        for (; i < l->n; i++)
            sum(l, i * l->in, i * l->out, o, 1);
        if (l->n * l->out < l->size)
            sum(l, l->size - l->out, l->size - l->out, o, 1);
    }
}

/// The kernel for fours of rows, with AVX512-VNNI: elements are the bytes of four lines, those of
/// taps without sign.
void depthwise_sum_vnni(const struct depthwise_line *l);

/// The kernel for halves that become halves, with AVX512, and whether it can be used.
void depthwise_sum_fp16(const struct depthwise_line *l);
bool depthwise_fits_fp16(const struct step *s, const struct conv *c, struct clamp_bounds *bounds);

/// Elements of n_rows lines of n bytes, or of the first four.
void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to);
