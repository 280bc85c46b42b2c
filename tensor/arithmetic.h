// What of the chips' arithmetic neither files nor measurements decide: a switch for each question.
//
// The rows of docs/board-testing.md have the same names, and say which run on a board settles each.
// Who computes as a chip does asks here and computes by itself: npu/emu can do all that a switch
// may say; npu/sim's kernels do the first, and where a chip says another, nodes are done by their
// register programs (docs/decisions/0075).
#pragma once

#include "tensor/chip.h"

enum chip_switch {
    CHIP_OUT_ZP,      // OUT_CVT: the zero point joins before its shift, or behind it
    CHIP_EW_SHIFT,    // an addend's shift
    CHIP_SUM_SHIFT,   // CLIP_TRUNCATE, the shift of sums
    CHIP_LUT_IN,      // in front of a table: the second stage's shift
    CHIP_LUT_LINE,    // between two points of a table
    CHIP_LUT_SLOPE,   // beyond a table's ends
    CHIP_BN_ORDER,    // BN in front of a table, and where it works on memory
    CHIP_DECONV_PAD,  // what is between the pixels of a transposed convolution's image
    CHIP_CORE_MAXIMA, // which of eight sums of a core count where their largest is taken
    CHIP_N_SWITCHES,
};

// What a switch may say; 0 is the first in each.
enum { CHIP_OUT_ZP_BEFORE, CHIP_OUT_ZP_BEHIND };
enum { CHIP_SHIFT_EVEN, CHIP_SHIFT_DOWN };       // of EW_SHIFT, SUM_SHIFT, LUT_IN
enum { CHIP_LINE_DOWN, CHIP_LINE_TOWARDS_ZERO }; // of LUT_LINE, LUT_SLOPE
enum { CHIP_BN_MULTIPLIES_FIRST, CHIP_BN_ADDS_FIRST };
enum { CHIP_DECONV_ZERO_POINT, CHIP_DECONV_ZERO };
enum { CHIP_CORE_MAXIMA_FIRST, CHIP_CORE_MAXIMA_ALL };

#define CHIP_SWITCH_CHOICES 2

/// Its name, as docs/board-testing.md and `rknnctl board-test` have it: "out-zp".
const char *chip_switch_name(enum chip_switch s);

/// What a choice means, in words; NULL: there is none of this number.
const char *chip_switch_choice(enum chip_switch s, unsigned choice);

/// What is taken for the chip: its own row, or the likeliest of its generation.
unsigned chip_switch_taken(const struct chip *chip, enum chip_switch s);
