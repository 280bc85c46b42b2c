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
    uint32_t macs_int8, macs_half; // multiply-accumulates per core and cycle (8.5.1: in × out)
    uint32_t mhz;
    uint64_t sram_size; // bytes that models may use
    // Of main memory, as the NPU sees it: what the DDR cycles printed for RK356x and RK3576 come to
    // (SDK guide 8.2.1, 8.2.2, 5.11.3). No table is printed for the others: guesses.
    uint32_t ddr_mb_per_s;
    uint32_t
        depthwise_int8; // channels that a depthwise convolution takes at once (8.5.1); fp16: half
    uint32_t buffer_banks; // of 32 KB, in each core's convolution buffer
    // How cores share a layer, from the shares that files give (node slot 12): output elements that
    // each core spends on closing it, and whether more than convolutions are shared.
    uint32_t share_work;
    bool shares_values;
    // Where the registers of the output conversion are, and which rule says what a bias table
    // holds.
    uint32_t output_conversion;
    enum { BIAS_RK3588, BIAS_RK3576, BIAS_RK3562, BIAS_RV1106 } bias_rule;
};

/// NULL: not known. Case does not matter.
const struct chip *chip_find(const char *name);

/// All known names, separated by ", ".
const char *chip_names(void);
