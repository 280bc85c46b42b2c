// Quotients of floats by one number, as division rounds them, in a quarter of its time.
//
//   q' = q + (x - q * by) * inverse      each of both a fused multiply-add
//
// makes of a q that is off by some units in the last place one that is off by less than one, and of
// such a q the quotient itself, rounded to nearest, where `inverse` is 1 / by rounded so (P.
// Markstein, IBM J. Res. Dev. 34, 1990). Tested by test_sim_int8.
#pragma once

#include <math.h>

#include "npu/sim/simd/kernel.h"

/// Whether quotient() is one, and fast: there are instructions for it, and nothing in between is
/// too small to be exact.
static inline bool quotient_is_fast(float by)
{
    return kernel_level() >= KERNEL_V3 && by >= 0x1p-40f && by <= 0x1p40f;
}

/// x / by; exact where that is 0 or of 2^-40 to 2^60 in size, below off by 2^-60 at most. For
/// functions of KERNEL.
static inline __attribute__((always_inline)) float quotient(float x, float by, float inverse)
{
    float rough = x * inverse, q = rough;
    q = fmaf(fmaf(-q, by, x), inverse, q);
    q = fmaf(fmaf(-q, by, x), inverse, q);
    return fabsf(rough) < 0x1p60f ? q : rough;
}
