// What one layer would cost on the chip: sizes in memory, cycles, traffic, shares of the cores.
//
// The rules are those that reproduce the numbers in the vendor's manual (SDK guide 5.3.2, 5.7.3.4,
// 5.11.3, 8.2.1 to 8.2.4: tests/unit/sim/test_sim_estimate.c holds them to it) and in real files.
// What neither tells is marked as a guess. Pure functions: any thread, no allocation, no errors.
#pragma once

#include "base/bytes.h"
#include "tensor/chip.h"

#define ESTIMATE_MAX_CORES 3

enum estimate_kind {
    ESTIMATE_CPU,   // costs the NPU nothing
    ESTIMATE_INPUT, // an input of the model
    ESTIMATE_CONV,
    ESTIMATE_DEPTHWISE,
    ESTIMATE_VALUES, // value by value, or plain copies: cores can share it
    ESTIMATE_WHOLE,  // pools, resizes, moves: one core
};

// A layer, as far as its cost depends on it. What does not apply is 0; a convolution has a kernel,
// stride and groups.
struct estimate_layer {
    enum estimate_kind kind;
    bool fp16;   // 16-bit elements, else 8
    bool lookup; // loads a lookup table: one core
    uint32_t batch, in_channels, in_width;
    uint32_t out_channels, out_height, out_width;
    uint32_t kernel[2], stride, groups; // of convolutions: height and width; of rows
    uint64_t in_bytes, out_bytes;       // all activations, in native form
    uint64_t weight_bytes, bias_bytes;  // as in memory
};

struct estimate {
    uint64_t macs;
    uint64_t npu_cycles;   // of convolutions; 0 for the rest, as in the manual's tables
    uint64_t ddr_cycles;   // in cycles of the NPU's clock
    uint64_t total_cycles; // the larger one
    uint64_t read_bytes, write_bytes;
};

// ---- in memory ----

/// A constant's share of the total weight size: constants begin at multiples of 64 bytes.
static inline uint64_t estimate_constant_space(uint64_t bytes)
{
    return align_up(bytes, 64);
}

// ---- in time ----

void estimate_layer(const struct chip *chip, const struct estimate_layer *l, struct estimate *ret);

/// Cycles that `macs` take at the least, with every multiplier of one core at work.
uint64_t estimate_mac_cycles(const struct chip *chip, bool fp16, uint64_t macs);

double estimate_us(const struct chip *chip, uint64_t cycles);

// ---- on several cores (estimate_split.c) ----

/// Whether n_cores share the layer at all.
bool estimate_is_shared(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores);

/// Shares of n_cores (1 … ESTIMATE_MAX_CORES), in output elements with the work of closing the
/// layer; all 0 on the CPU. `next_is_shared`: of the layer that is executed next, false if none.
void estimate_share(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores,
                    bool next_is_shared, uint64_t ret[ESTIMATE_MAX_CORES]);
