// The NPU's registers by name: where each generation of chips has them. Names and fields are those
// of the technical reference manual of RK3588, chapter of the NPU; the others' addresses come from
// files. A convolution goes through the units in this order:
//
//     CNA ------> CORE --------> DPU: BS -------> BN ----------> EW -------------> OUT_CVT
//     windows     multiplies,    bias, factor     LeakyRelu,     second operand    to the
//                 sums           of each channel  way to LUT     or LUT            output's units
//
// DPU_RDMA fetches what BS and BN read from memory.
#pragma once

#include "tensor/chip.h"

enum rknn_register {
    CNA_CONV_CON3,      // strides and dilations
    CNA_CVT_CON1,       // what is added to inputs (RK3588), and what they are multiplied with
    CNA_CVT_OFFSET,     // what is added to inputs (RV1106)
    CNA_PAD_CON0,       // padding at the top and at the left
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
    DPU_BN_RELUX_CMP, // upper bound of the BN unit's Relu
    DPU_BS_LOW_0,     // RK3576, RK3562: bounds in and behind each unit
    DPU_BS_HIGH_0,
    DPU_BS_LOW_1,
    DPU_BS_HIGH_1,
    DPU_BN_LOW_0,
    DPU_BN_HIGH_0,
    DPU_BN_LOW_1,
    DPU_BN_HIGH_1,
    DPU_EW_LOW_0,
    DPU_EW_HIGH_0,
    DPU_EW_LOW_1,
    DPU_EW_HIGH_1,
    DPU_EW_CFG, // second operands and lookup tables
    DPU_EW_CVT_OFFSET,
    DPU_EW_CVT_SCALE,
    DPU_EW_RELUX_CMP,
    DPU_OUT_CVT_OFFSET,
    DPU_OUT_CVT_SCALE,
    DPU_OUT_CVT_SHIFT,
    DPU_LUT_ACCESS_CFG, // bit 17: write; bit 16: which table; the rest counts from 0
    DPU_LUT_ACCESS_DATA,
    DPU_LUT_INFO, // widths of the tables' steps, as powers of two
    DPU_LUT_LE_START,
    DPU_LUT_LE_END,
    DPU_LUT_LO_START,
    DPU_LUT_LO_END,
    DPU_LUT_LE_SLOPE_SCALE,
    DPU_LUT_LE_SLOPE_SHIFT,
    DPU_LUT_LO_SLOPE_SCALE,
    DPU_LUT_LO_SLOPE_SHIFT,
    RDMA_SRC_BASE,       // address of the first operand of what works from memory
    RDMA_EW_BASE,        // … of the second
    RDMA_BS_CFG,         // what is in memory for the BS unit
    RDMA_BS_CONFIG_BASE, // address of what RK3576 has instead of registers of the bias unit
    RDMA_BN_CFG,         // what RK3576 has in memory for the BN unit
    RDMA_BN_BASE,        // where
    RKNN_REGISTER_COUNT,
};

/// Its address on the chip; 0: the chip does not have it, or where is not known.
uint32_t rknn_register_at(const struct chip *chip, enum rknn_register reg);

const char *rknn_register_name(enum rknn_register reg);
