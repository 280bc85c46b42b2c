// Sums of bytes as the chips round them (int8_sum()), as one line of both operands.
//
//   y = round((a * factor[0] + b * factor[1] + more) * out + zp), `low` at least
#pragma once

#include <stddef.h>

#include "npu/model/graph.h"

struct int8_pairs {
    int16_t factor[2];
    int32_t more;
    float out, to; // to: with what rounds
    int8_t low;
};

/// The line that gives what int8_sum() does for all 65,536 pairs of bytes, which are looked at.
/// False: there is none, or the CPU has no AVX2.
bool int8_pairs_find(const struct graph_sum *sum, int8_t low, struct int8_pairs *ret);

/// How many of the first elements are done, which is a multiple of what a vector has. y may be an
/// operand.
size_t int8_pairs_sum(const struct int8_pairs *p, const void *a, const void *b, size_t n, void *y);
