// The chip's lookup table for activations: two tables of 513 points with straight lines between.
#pragma once

#include <stdint.h>

#define LUT_POINTS 513

// A value v enters as an integer; [-16384, 0] is covered by below[], [0, 16384] by above[], in
// steps of 32. What comes out is turned into the stored value by out = y * out_scale + out_offset.
struct graph_lut {
    int16_t below[LUT_POINTS], above[LUT_POINTS];
    float slope_below, slope_above; // beyond the tables
    float out_scale, out_offset;
};

float lut_value(const struct graph_lut *lut, float v);
