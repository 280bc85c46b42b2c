// From sums of an integer convolution to int8: what conv_requantize.c and the kernels that do it
// share.
#pragma once

#include "npu/sim/conv/conv.h"

// Sums of so many pixels x groups, one after the other, and what they become. Kernels work on a
// copy, which no store can change.
struct conv_finish {
    enum finish_kind kind;
    bool exact;
    size_t n, groups, channels;                // pixels x groups; channels of a group
    const int32_t *sums, *windows, *bias, *nz; // nz NULL: there are none
    struct conv_unit unit, below;
    const int8_t *addend;
    int8_t *dst;
    double to_stored, low, high, addend_steps; // bounds with to_stored
    float float_to_stored, float_low, float_high;
    float addend_near, addend_low, addend_high; // steps of one; what its product is moved by
    int32_t addend_zp, zp_after;
};

/// Of the whole output. The caller sets n, sums and windows.
struct conv_finish conv_steps_begin(const struct step *s, const struct conv *c,
                                    const struct run *r);

// Channels [from, from + count) of n pixels x groups from `first` on, whose sums lie `step` apart.
struct conv_steps_part {
    const int32_t *sums;
    size_t step, first, n, from, count;
};

/// Counts them in doubles.
void conv_steps_exact(const struct conv_finish *t, const struct conv_steps_part *part);

/// name(t), by kernels finish(t, nz, kind) of the source's own, inlined and compiled with `target`.
#define CONV_STEPS(name, target)                                                                   \
    CONV_STEPS_KERNEL(target, plain, false, FINISH_PLAIN)                                          \
    CONV_STEPS_KERNEL(target, plain_nz, true, FINISH_PLAIN)                                        \
    CONV_STEPS_KERNEL(target, leaky, false, FINISH_LEAKY)                                          \
    CONV_STEPS_KERNEL(target, leaky_nz, true, FINISH_LEAKY)                                        \
    CONV_STEPS_KERNEL(target, add, false, FINISH_ADD)                                              \
    CONV_STEPS_KERNEL(target, add_nz, true, FINISH_ADD)                                            \
    CONV_STEPS_KERNEL(target, floats, false, FINISH_FLOAT)                                         \
    CONV_STEPS_KERNEL(target, floats_nz, true, FINISH_FLOAT)                                       \
    void name(const struct conv_finish *t)                                                         \
    {                                                                                              \
        static void (*const kernels[][2])(const struct conv_finish *t) = {                         \
            [FINISH_PLAIN] = {plain, plain_nz},                                                    \
            [FINISH_LEAKY] = {leaky, leaky_nz},                                                    \
            [FINISH_ADD] = {add, add_nz},                                                          \
            [FINISH_FLOAT] = {floats, floats_nz},                                                  \
        };                                                                                         \
        kernels[t->kind][t->nz != NULL](t);                                                        \
    }

#define CONV_STEPS_KERNEL(target, name, nz, kind)                                                  \
    target static void name(const struct conv_finish *t)                                           \
    {                                                                                              \
        finish(t, nz, kind);                                                                       \
    }

/// Finishes all. The second one takes CONV_LANES channels or more, and AVX512-VNNI.
void conv_steps_any(const struct conv_finish *t);
void conv_steps_vnni(const struct conv_finish *t);
