// From sums of an integer convolution to int8: what conv_steps.c and the kernels that do it share.
#pragma once

#include "npu/sim/conv.h"

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

/// Finishes all. The second one takes CONV_LANES channels or more, and AVX512-VNNI.
void conv_steps_any(const struct conv_finish *t);
void conv_steps_vnni(const struct conv_finish *t);
