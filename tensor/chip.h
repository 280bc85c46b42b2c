// What is known of each chip. A chip is one row of the table in chip.c: everything else that
// depends on the chip, from the layout of matrices to the names in error texts, comes from there.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHIP_NAMES_MAX 256 // bytes that chip_names() fills at most

// NPUs of one generation have their registers at the same addresses, and the same units behind
// a convolution's sums. Each generation is named after its first chip. The addresses are in
// npu/model/rknn/regs/rknn_registers.c, the bias units in rknn_stages.c.
enum chip_generation {
    CHIP_GEN_RK3588,
    CHIP_GEN_RK3576,
    CHIP_GEN_RK3562,
    CHIP_GEN_RV1106,
    CHIP_GEN_RK3566,
    CHIP_N_GENERATIONS,
};

// Where a depthwise weight with zero points of its own has them. Each of w and nz is one byte.
enum chip_tap_packing {
    CHIP_TAPS_NONE,   // in the bias table
    CHIP_TAPS_SINGLE, // per tap and channel:      w nz
    CHIP_TAPS_PAIRS,  // per tap and two channels: w0 w1 nz0 nz1
};

// rknn_matmul_api.h, as the SDK guide gives it: tables 3-12 (layouts), 3-13 (types), 3-14 (sizes).
struct chip_matmul {
    uint32_t types;          // bit i: rknn_matmul_type i; 0: the chip has no matmul
    uint32_t a_unit;         // bytes of a row in a block of A; of C: 16 everywhere
    uint32_t int8_n, fp16_n; // rows of a block of B
    uint32_t fp16_k;         // columns of one; 32 for other types
    uint32_t n_unit;         // of which N is a multiple; int4: 64
    uint32_t max_k;          // 0: any
    uint32_t segment;        // longest K of one stored B; 0: any
    bool transposes;         // has MATMUL_TRANSPOSED
};

struct chip {
    const char *name;   // "rk3588"
    const char *target; // chips with the same target run each other's models
    uint32_t n_cores;
    uint32_t mhz;
    uint64_t sram_size;    // bytes that models may use
    bool small;            // its runtime is librknnmrt: tensors go through bound memory only, and
                           // outputs are never float32
    uint32_t buffer_banks; // of 32 KB, in each core's convolution buffer

    // How it packs numbers.
    uint32_t c2_int8, c2_fp16;  // channels in a block of NC1HWC2
    uint32_t bias_group;        // channels in a record of an int8 bias table
    bool packs_rows;            // int8 weights with up to 4 input channels may come row by row
    enum chip_tap_packing taps; // int8 depthwise weights

    // How fast it is.
    uint32_t macs_int8, macs_fp16; // multiply-accumulates per core and cycle (8.5.1: in × out)
    uint32_t depthwise_int8; // channels that a depthwise convolution takes at once; fp16: half
    // Of main memory, as the NPU sees it: what the DDR cycles printed for RK356x and RK3576 come to
    // (SDK guide 8.2.1, 8.2.2, 5.11.3). No table is printed for the others: guesses.
    uint32_t ddr_mb_per_s;
    // How cores share a layer, from the shares that files give (node slot 12): output elements that
    // each core spends on closing it, and whether more than convolutions are shared.
    uint32_t share_work;
    bool shares_values;

    // Registers of convolutions.
    enum chip_generation generation;
    bool shifts_sums;          // right, before the bias is added
    bool bn_in_memory;         // the BN unit's factor and shifts are in a tensor, not in registers
    bool bn_relu_field;        // bit 6 of DPU_BN_CFG bypasses a Relu
    const uint8_t *arithmetic; // a choice for each switch of arithmetic.h; NULL: its generation's

    struct chip_matmul matmul;
};

/// The chip of this name, in any case; rk3588s is rk3588. NULL: not known.
const struct chip *chip_find(const char *name);

/// As boards and drivers call chips: variants of a chip have letters behind its name ("rk3588s",
/// "rv1106g2"). NULL: not known.
const struct chip *chip_find_variant(const char *name);

/// The chip that a device of any chip stands for when a model is for none.
const struct chip *chip_default(void);

/// All names, separated by ", ". Returns `buffer`.
const char *chip_names(char buffer[CHIP_NAMES_MAX]);
