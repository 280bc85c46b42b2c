// From the sums of an integer convolution to int8: what conv_requantize.c, which has formula and
// rounding, shares with the kernels that compute it.
#pragma once

#include "npu/sim/conv/conv.h"

// Added to a double below 2^51, or to a float below 2^22, these leave the nearest integer (ties to
// even) in the lowest bits: 1.5 * 2^52 and 1.5 * 2^23.
#define REQUANT_INTEGER       6755399441055744.0
#define REQUANT_INTEGER_FLOAT 12582912.0f

// The stages behind the first one, in doubles. Bounds: lowest, highest.
struct requant_exact {
    double bn[2], bounds[2];
    double addend, addend_bounds[2];
    double out, to_stored, low, high; // to_stored: rounds, adds zp; in bounds
};

// The sums of n groups of channels (one for each pixel, or several), one after the other, and what
// they become:
//
//   sums, addend, dst   [pixel][group][channel]       window_sums  [pixel][group]
//   bias, nz, factors   [group][channel]
//
// Kernels work on a copy: the compiler then knows that no store changes it.
struct requant_job {
    enum requant_kind kind;
    bool in_doubles;
    bool complete;              // all biases are 0
    bool narrow;                // no output lies beyond 16 bits before it is clamped
    bool merged;                // to_merged is exact
    size_t n, groups, channels; // n: pixels x groups; channels: of a group
    const int32_t *sums, *window_sums, *bias, *nz; // nz NULL: there are none
    struct requant_factors factors;
    const int8_t *addend;
    int8_t *dst;
    struct requant_exact exact;
    float out, to_stored, low, high; // of floats
    float to_merged;                 // to_stored less what `out` makes of REQUANT_INTEGER_FLOAT
    int8_t bounds[2];                // the last two as outputs, where they are narrow
    float addend_factor, error;
    int32_t addend_offset, zp_after;
};

/// For the whole output. The caller sets n, sums and window_sums, and moves dst and addend. Jobs
/// are made where they stay: to copy one that was just written to takes as long as a line of few
/// pixels.
void conv_requantize_begin(const struct step *s, const struct conv *c, const struct run *r,
                           struct requant_job *ret);

// Channels [from, from + count) of n groups from `first` on, whose sums are `pitch` apart.
struct requant_part {
    const int32_t *sums;
    size_t pitch, first, n, from, count;
};

/// Computes these in doubles.
void conv_requantize_exact(const struct requant_job *call, const struct requant_part *of);

/// Computes in doubles those of which floats leave open what they become. The others are stored
/// already. With AVX512-VNNI; whole vectors of sums and addends are read.
void conv_requantize_open(const struct requant_job *t, const struct requant_part *part);

static inline bool requant_is_leaky(enum requant_kind kind)
{
    return kind == REQUANT_LEAKY || kind == REQUANT_LEAKY_ADD;
}

static inline bool requant_has_addend(enum requant_kind kind)
{
    return kind == REQUANT_ADD || kind == REQUANT_LEAKY_ADD;
}

/// Defines name(t): calls kernel(t, nz, kind), which is inlined into a function that `define`
/// begins, once for each kind, with and without zero points of weights.
#define CONV_REQUANTIZE(name, define, kernel)                                                      \
    CONV_REQUANTIZE_KERNEL(define, kernel, plain, false, REQUANT_PLAIN)                            \
    CONV_REQUANTIZE_KERNEL(define, kernel, plain_nz, true, REQUANT_PLAIN)                          \
    CONV_REQUANTIZE_KERNEL(define, kernel, leaky, false, REQUANT_LEAKY)                            \
    CONV_REQUANTIZE_KERNEL(define, kernel, leaky_nz, true, REQUANT_LEAKY)                          \
    CONV_REQUANTIZE_KERNEL(define, kernel, add, false, REQUANT_ADD)                                \
    CONV_REQUANTIZE_KERNEL(define, kernel, add_nz, true, REQUANT_ADD)                              \
    CONV_REQUANTIZE_KERNEL(define, kernel, leaky_add, false, REQUANT_LEAKY_ADD)                    \
    CONV_REQUANTIZE_KERNEL(define, kernel, leaky_add_nz, true, REQUANT_LEAKY_ADD)                  \
    CONV_REQUANTIZE_KERNEL(define, kernel, floats, false, REQUANT_FLOAT32)                         \
    CONV_REQUANTIZE_KERNEL(define, kernel, floats_nz, true, REQUANT_FLOAT32)                       \
    void name(const struct requant_job *t)                                                         \
    {                                                                                              \
        static void (*const kernels[][2])(const struct requant_job *t) = {                         \
            [REQUANT_PLAIN] = {plain, plain_nz},                                                   \
            [REQUANT_LEAKY] = {leaky, leaky_nz},                                                   \
            [REQUANT_ADD] = {add, add_nz},                                                         \
            [REQUANT_LEAKY_ADD] = {leaky_add, leaky_add_nz},                                       \
            [REQUANT_FLOAT32] = {floats, floats_nz},                                               \
        };                                                                                         \
        kernels[t->kind][t->nz != NULL](t);                                                        \
    }

#define CONV_REQUANTIZE_KERNEL(define, kernel, name, nz, kind)                                     \
    define(name)                                                                                   \
    {                                                                                              \
        kernel(t, nz, kind);                                                                       \
    }

/// Computes all outputs of a job. The second takes CONV_LANES channels or more, and AVX512-VNNI, or
/// NEON of 64-bit ARM.
void conv_requantize_any(const struct requant_job *t);
void conv_requantize_vectors(const struct requant_job *t);

/// The same with AVX2, of jobs that it fits.
bool conv_requantize_has_avx2(const struct requant_job *t);
void conv_requantize_avx2(const struct requant_job *t);
