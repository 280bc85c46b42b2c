// The numbers of e^v in vector instructions, for exponential.c and simd/sigmoid.c, whose heads have
// the formula: e^v = 2^n e^-r, e^-r = 1 - r (1 - r q(r)).
#pragma once

#define LOWEST        -87.0f
#define LOG2_E        1.44269504f
#define LN2           0x1.62ep-1f // few bits: its products with n are exact
#define LN2_REST      0x1.0bfbe8e7p-15f
#define ROUNDS        (0x1.8p23f + 127) // what it is added to loses its fraction
#define MANTISSA_BITS 23

// q, from the highest power of -r on.
#define Q4 0x1.6d4352p-10f
#define Q3 -0x1.120b96p-7f
#define Q2 0x1.5554e8p-5f
#define Q1 -0x1.5554dcp-3f
#define Q0 .5f
