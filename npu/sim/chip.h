// What is known of each chip: how it packs numbers and how fast it is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct chip {
    const char *name;   // "rk3588"
    const char *target; // chips with the same target run each other's models
    uint32_t n_cores;
    uint32_t c2_int8, c2_half;     // channels in a native block
    uint32_t bias_group;           // channels in a record of an int8 bias table
    uint32_t macs_int8, macs_half; // multiply-accumulates per core and cycle
    uint32_t mhz;
    uint64_t sram_size; // bytes that models may use
    uint32_t ddr_bytes_per_cycle;
    // Where the registers of the output conversion are, and which rule says what a bias table
    // holds.
    uint32_t output_conversion;
    enum { BIAS_RK3588, BIAS_RK3576, BIAS_RK3562, BIAS_RV1106 } bias_rule;
};

/// NULL: not known. Case does not matter.
const struct chip *chip_find(const char *name);

/// All known names, separated by ", ".
const char *chip_names(void);

/// Cycles of one core for a convolution, by the rule that fits the vendor's tables. `inputs` are
/// the channels of one group (1 for depthwise, then `outputs` are the channels).
uint64_t chip_conv_cycles(const struct chip *chip, bool half, uint64_t pixels, uint64_t taps,
                          uint64_t inputs, uint64_t outputs, bool depthwise);
