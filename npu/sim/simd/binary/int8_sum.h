// What int8_sum.c shares with its kernel for NEON and with int8_scale.c.
#pragma once

#include <math.h>

#include "npu/sim/simd/binary/int8_binary.h"

// Added to floats below 2^22, it leaves the nearest integer (ties to even) in the lowest bits.
#define INT8_INTEGER  12582912.0f
#define INT8_MAX_HELD (1 << 22)

// factor / 2^shift: a power of two divides exactly.
static inline double int8_factor(struct graph_scaling s)
{
    return ldexp(s.factor, -(int)s.shift);
}

// The bits of a float: those of INT8_INTEGER and an integer are ordered as these integers are.
static inline int32_t int8_rounded(float v)
{
    union {
        float real;
        int32_t bits;
    } both = {v};
    return both.bits;
}

#define INT8_SUM_NEON 16 // elements that are computed together

/// As int8_sum(), of 64-bit ARM; n is a multiple of INT8_SUM_NEON, operands are below
/// INT8_MAX_HELD, and offsets int16 with a byte added.
void int8_sum_neon(const struct graph_sum *sum, int8_t low, const int8_t *a, const int8_t *b,
                   size_t n, int8_t *y);
