// From what was observed to a scale and a zero point: a number x is stored as
// clip(round(x / scale) + zp, lowest, highest), halves to even.
#pragma once

#include "tensor/observe/observer.h"

struct quant_range {
    float low, high;
};

// How numbers of a tensor are stored.
struct quant_store {
    uint8_t bits;      // 8 or 16
    bool symmetric;    // zp 0, and the lowest number is left out
    bool power_of_two; // scales are powers of two (dynamic fixed point)
};

struct quant_form {
    float scale;
    int32_t zp;
    uint8_t bits;
};

/// The largest stored number: 127 or 32767.
double quant_form_most(uint8_t bits);

/// A scale that can be written: 1 where the span is 1e-30 or less (hardly more than 0 was seen),
/// and the next power of two where that is wanted.
float quant_scale_of(double span, struct quant_store store);

/// How a range is stored in int8 (-128 to 127; symmetric: -127 to 127 and zp 0) or int16
/// (likewise).
struct quant_form quant_form_of_range(struct quant_range r, struct quant_store store);

/// A range of what an activation has cut to lo to hi (infinite: no bound). As a zero point is
/// rounded, an end can be stored up to half a step beyond its bound: the range then becomes the
/// nearest one whose ends are within as they are stored, too, which takes up to a step off the
/// other end. Other ranges stay as they are. So the conversion alone does what the activation does,
/// and programs may leave that out.
struct quant_range quant_range_within_bounds(struct quant_range r, float lo, float hi,
                                             struct quant_store store);

/// A number as it is stored.
int32_t quant_form_store(struct quant_form f, float x);

// What lies outside of a range: bins whose middles are more than half a step beyond its ends.
struct quant_clipping {
    double power; // mean square of all values
    double share; // of the values that are outside, from 0 to 1
    double error; // what storing them as the ends does, as its part of the mean square error
};
struct quant_clipping quant_range_clipping(const struct observer *o, struct quant_range r,
                                           float scale);

/// The distance from 0 that a tenth of the values is beyond, by the bins' middles: what is usual,
/// whatever few large values there are, and however many zeros.
double quant_range_usual(const struct observer *o);
