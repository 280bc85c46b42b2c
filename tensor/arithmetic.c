// The switches of chips' arithmetic. Whoever settles one changes its number here, and the row of
// docs/board-testing.md.
#include "tensor/arithmetic.h"

// In the order of enum chip_generation.
static const struct {
    const char *name, *choices[CHIP_SWITCH_CHOICES];
    uint8_t taken[CHIP_N_GENERATIONS];
} switches[CHIP_N_SWITCHES] = {
    // clang-format off
    //                                                        RK3588 RK3576 RK3562 RV1106 RK3566
    [CHIP_OUT_ZP] = {"out-zp", {"before the shift", "behind the shift"}, {0, 0, 0, 0, 0}},
    [CHIP_EW_SHIFT] = {"ew-shift", {"halves to even", "rounded down"}, {0, 0, 0, 0, 0}},
    [CHIP_SUM_SHIFT] = {"sum-shift", {"halves to even", "rounded down"}, {0, 0, 0, 0, 0}},
    [CHIP_LUT_IN] = {"lut-in", {"halves to even", "rounded down"}, {0, 0, 0, 0, 0}},
    [CHIP_LUT_LINE] = {"lut-line", {"rounded down", "towards zero"}, {0, 0, 0, 0, 0}},
    [CHIP_LUT_SLOPE] = {"lut-slope", {"rounded down", "towards zero"}, {0, 0, 0, 0, 0}},
    [CHIP_BN_ORDER] = {"bn-order", {"multiplies first", "adds first"}, {0, 0, 0, 0, 0}},
    [CHIP_DECONV_PAD] = {"deconv-pad", {"the zero point", "0"}, {0, 0, 0, 1, 0}},
    [CHIP_CORE_MAXIMA] = {"core-maxima", {"the first four of eight", "all eight"}, {0, 0, 0, 0, 0}},
    // clang-format on
};

const char *chip_switch_name(enum chip_switch s)
{
    return switches[s].name;
}

const char *chip_switch_choice(enum chip_switch s, unsigned choice)
{
    return choice < CHIP_SWITCH_CHOICES ? switches[s].choices[choice] : NULL;
}

unsigned chip_switch_taken(const struct chip *chip, enum chip_switch s)
{
    return chip->arithmetic ? chip->arithmetic[s] : switches[s].taken[chip->generation];
}
