// The NPU's registers by name: where each chip has them. Names and fields are those of the
// technical reference manual of RK3588, chapter of the NPU; the others' places come from files.
#pragma once

#include "npu/model/chip.h"
#include "npu/model/rknn/regs/rknn_commands.h"

enum rknn_register {
    CORE_CLIP_TRUNCATE, // sums are shifted right, before the bias
    DPU_DATA_FORMAT,    // shifts of negative values
    DPU_BS_CFG,         // bias and multiplier of each channel
    DPU_BS_ALU_CFG,     // what is added where nothing comes from memory
    DPU_BS_MUL_CFG,
    DPU_BS_OW_CFG, // what a bias table holds
    DPU_BS_OW_OP,  // the zero point of weights, negated
    DPU_BN_CFG,
    DPU_BN_ALU_CFG,
    DPU_BN_MUL_CFG,
    DPU_OUT_CVT_OFFSET,
    DPU_OUT_CVT_SCALE,
    DPU_OUT_CVT_SHIFT,
    DPU_LUT_LE_SLOPE_SCALE,
    DPU_LUT_LE_SLOPE_SHIFT,
    DPU_LUT_LO_SLOPE_SCALE,
    DPU_LUT_LO_SLOPE_SHIFT,
    RDMA_BS_CONFIG_BASE, // address of what RK3576 has instead of registers of the bias unit
    RDMA_BN_CFG,         // what RK3576 has in memory for the BN unit
    RDMA_BN_BASE,        // where
    RKNN_REGISTER_COUNT,
};

/// Its number on the chip; 0: it has none.
uint32_t rknn_register_at(const struct chip *chip, enum rknn_register reg);

/// False: the node's commands do not set it, or the chip does not have it.
bool rknn_register_get(const struct rknn_regs *regs, const struct chip *chip,
                       enum rknn_register reg, uint32_t *ret);

/// As rknn_register_get; STATUS_MODEL_INVALID when it is not set.
int rknn_register_need(const struct rknn_regs *regs, const struct chip *chip,
                       enum rknn_register reg, uint32_t *ret, struct error *e);

/// STATUS_MODEL_INVALID: "register NAME (0x4050) holds 0x00000007: …".
int rknn_register_refuse(const struct chip *chip, enum rknn_register reg, uint32_t value,
                         const char *what, struct error *e);
