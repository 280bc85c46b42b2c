// The chip's lookup table (struct graph_lut) from its integers to stored int8.
#pragma once

#include "npu/model/graph.h"

// The tables cover [-LUT_REACH, LUT_REACH].
#define LUT_REACH    16384
#define LUT_N_DENSE  (2 * LUT_REACH)
#define LUT_SEGMENT  256 // numbers of a segment, at most
#define LUT_SEGMENTS 256 // at most

/// What the chip makes of v, which may be any: a straight line between two points (rounded down),
/// times the output's factor, and to nearest, ties to the even stored value.
int8_t lut_stored(const struct graph_lut *lut, int32_t v);

/// What the table has for all of [-LUT_REACH, LUT_REACH), before the output's factor.
void lut_fill_values(const struct graph_lut *lut, int16_t values[LUT_N_DENSE]);

/// What n numbers, to the nearest integer and to within 2^30, become before they are rounded, as
/// the real numbers that these stand for by `scale` and `zp`; in place. `values`:
/// lut_fill_values().
void lut_reals(const struct graph_lut *lut, const int16_t *values, float scale, int32_t zp,
               float *v, size_t n);

/// lut_stored() for all of [-LUT_REACH, LUT_REACH).
void lut_fill_dense(const struct graph_lut *lut, int8_t dense[LUT_N_DENSE]);

/// Bounds that v may be clamped to without another outcome; they are floats, and `max` of either
/// sign at most. False: there are none.
bool lut_find_bounds(const struct graph_lut *lut, int32_t max, int32_t ret[2]);

// The dense table in pieces that fit registers. A segment of 1 << bits numbers is a straight line
// in fixed point, 16 bits that wrap, whose upper byte is the stored value:
//   line = offset + (l * slope >> shift) - LUT_FALL * l      l: number in its segment
// Some numbers are exceptions. Segments cover all of the dense table, or, where it saturates, a
// window in which it does not:
//
//   dense table  | the same …  | segment | segment | … | segment | … the same |
//                              first                             first + (n << bits)
#define LUT_FALL       2 // lines fall less than they rise
#define LUT_EXCEPTIONS 24

struct lut_segments {
    uint8_t slope[LUT_SEGMENTS], offset_low[LUT_SEGMENTS], offset_high[LUT_SEGMENTS];
    uint32_t n, bits; // segments: 128 or 256
    int32_t first;    // position (number + LUT_REACH) of the first number
    bool saturates;   // numbers outside of the segments, any, become what the nearest one becomes
    uint32_t shift;   // 0 to 5
    uint32_t n_exceptions;
    uint16_t exceptions[LUT_EXCEPTIONS]; // positions from `first` on
    int8_t values[LUT_EXCEPTIONS];
};

/// `ends`: what the lowest and the highest number become. False: there are more exceptions than
/// fit.
bool lut_fit_segments(const int8_t dense[LUT_N_DENSE], const int8_t ends[2],
                      struct lut_segments *ret);
