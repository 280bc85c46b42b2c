// The chip's lookup table as the places where its outcome takes a step, for AVX512-VBMI.
//
// All that fewer than 2^16 numbers become, those beyond becoming what the first and the last one
// do, is cut into segments of 1 << bits numbers. A position is a number less `first`:
//
//   segment = position >> bits                      a byte
//   stored  = base[segment] + so many of at[…][segment] that the position's low byte is above
//
// In the first segments, up to `turned`, outcomes may fall (a SiLU's do, before its lowest one).
// There 255 less the low byte is compared instead, and each step that is above adds one again.
//
// Numbers are the table's own (w), or the results of the first stage (v), of which there are fewer
// where they are multiplied by more than 1 on their way to the table.
#pragma once

#include "npu/sim/simd/lut_kernel.h"

#define LUT_STEPS_MOST      8 // of a segment, where there are up to 128
#define LUT_STEPS_MOST_WIDE 5 // … 256
#define LUT_STEPS_SEGMENTS  256

struct lut_steps {
    bool of_v;
    uint32_t n, bits; // n: 128 or 256
    int32_t first, last;
    uint32_t most; // steps of a segment
    bool falls;
    uint8_t turned; // last segment that falls, if any does
    uint8_t base[LUT_STEPS_SEGMENTS], at[LUT_STEPS_MOST][LUT_STEPS_SEGMENTS];
};

/// Finds the segments that take the least time, for a kernel whose bounds and inputs are set, and
/// which has no need of doubles. `dense`: all of [-LUT_REACH, LUT_REACH). False: there are too many
/// numbers or steps, or some fall behind others that rise.
bool lut_find_steps(const struct lut_kernel *k, const int8_t dense[LUT_N_DENSE],
                    struct lut_steps *ret);
