// Floats of all sizes, and how far a result is from what is right: for tests of functions of
// vectors.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLOATS_STEP  997 // of floats' bits: all exponents, and digits of all kinds
#define FLOATS_CHUNK 1000

static inline float floats_of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/// In units in the last place of what is right; what is near 0 in those of the smallest normal
/// float's.
static inline double floats_distance(double right, float got)
{
    double size = fmax(fabs(right), 0x1p-126);
    return fabs(right - (double)got) / ldexp(1, ilogb(size) - 23);
}

/// Calls `check` with finite floats, FLOATS_CHUNK at most at a time; `which` is 0 and 1 in turn.
static inline void floats_each(void (*check)(bool which, const float *x, size_t n))
{
    float x[FLOATS_CHUNK];
    size_t n = 0;
    bool which = false;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += FLOATS_STEP) {
        float v = floats_of_bits((uint32_t)bits);
        if (isfinite(v))
            x[n++] = v;
        if (n == FLOATS_CHUNK || (bits + FLOATS_STEP > UINT32_MAX && n > 0)) {
            check(which, x, n);
            which = !which;
            n = 0;
        }
    }
}
