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

#include <stdbool.h>
#include <stdint.h>

#include "tensor/chip.h"

enum rknn_register {
    CNA_S_POINTER,
    CNA_CONV_CON1, // precision, kind of convolution; packed pixels
    CNA_CONV_CON2,
    CNA_CONV_CON3, // strides and dilations
    CNA_BUFFER_PLAN,
    CNA_CVT_OFFSET, // what is added to inputs (RV1106)
    CNA_DATA_SIZE0,
    CNA_DATA_SIZE1,
    CNA_DATA_SIZE2,
    CNA_DATA_SIZE3,
    CNA_WEIGHT_SIZE0,
    CNA_WEIGHT_SIZE1,
    CNA_WEIGHT_SIZE2, // the kernel
    CNA_CORE_PLAN,
    CNA_BUFFER_0,
    CNA_CBUF_CON0,
    CNA_CBUF_CON1,
    CNA_BUFFER_1,
    CNA_CVT_CON0,   // the converter of a model's input
    CNA_CVT_CON1,   // what is added to inputs (RK3588), and what they are multiplied with
    CNA_CVT_SCALES, // RK3576, RK3562
    CNA_CVT_CON2,
    CNA_CVT_CON3,
    CNA_CVT_CON4,
    CNA_CVT_CON5,
    CNA_FC_CON0,
    CNA_FC_CON1,
    CNA_PAD_CON0, // padding
    CNA_PADDING,  // … of RK3576, RK3562
    CNA_DMA_CON3,
    CNA_CVT_OFFSET_3,
    CNA_FEATURE_BASE,
    CNA_PAD_RAW,
    CNA_FC_CON2,
    CNA_WEIGHT_ZERO,
    CNA_DMA_CON0,
    CNA_LINE_STRIDE,
    CNA_SURF_STRIDE,
    CNA_SURF_READ,
    CNA_FC_DATA_SIZE0,
    CNA_FC_DATA_SIZE1,
    CNA_PACKED_PIXELS,
    CNA_DCOMP_CTRL,
    CNA_DCOMP_REGNUM,
    CNA_DCOMP_ADDR0,
    CNA_PAD_CON1, // what is padded with
    CNA_ENTRIES,
    CNA_WIDTHS,
    CMAC_S_POINTER,
    CMAC_MISC_CFG, // as CORE_MISC_CFG
    CORE_S_POINTER,
    CORE_MAC_GATING,
    CORE_MISC_CFG, // precision, depthwise or not
    CORE_DATAOUT_SIZE_0,
    CORE_DATAOUT_SIZE_1,
    CORE_CLIP_TRUNCATE, // sums are shifted right, before the bias
    DPU_S_POINTER,
    DPU_FEATURE_MODE_CFG,
    DPU_DATA_FORMAT, // precisions; shifts of negative values
    DPU_OFFSET_PEND,
    DPU_DST_BASE,
    DPU_DST_SURF_STRIDE,
    DPU_DATA_CUBE_WIDTH,
    DPU_DATA_CUBE_HEIGHT,
    DPU_DATA_CUBE_NOTCH,
    DPU_DATA_CUBE_CHANNEL,
    DPU_WRITE_SIZE_0,
    DPU_WRITE_SIZE_1,
    DPU_SURFACE_ADD,
    DPU_BYTE_ENABLES,
    DPU_PLACE_0,
    DPU_PLACE_1,
    DPU_BYTES_WRITTEN,
    DPU_BS_CFG,     // bias and multiplier of each channel
    DPU_BS_ALU_CFG, // what is added where nothing comes from memory
    DPU_BS_MUL_CFG,
    DPU_BS_RELUX_CMP,
    DPU_BS_OW_CFG, // what a bias table holds; transposed writes
    DPU_BS_OW_OP,  // the zero point of weights, negated
    DPU_BN_CFG,
    DPU_BN_ALU_CFG,
    DPU_BN_MUL_CFG,
    DPU_BN_RELUX_CMP, // upper bound of the BN unit's Relu
    DPU_BS_LOW_0,     // bounds in and behind each unit
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
    DPU_SOURCE_OFFSET, // RV1103, RV1106: what is added to a first operand in memory
    DPU_BOUND_0,       // bounds of its units
    DPU_BOUND_1,
    DPU_BOUND_2,
    DPU_BOUND_3,
    DPU_BOUND_4,
    DPU_BOUND_5,
    DPU_BOUND_6,
    DPU_BOUND_7,
    DPU_BOUND_8,
    DPU_BOUND_9,
    DPU_BOUND_10,
    DPU_BOUND_11,
    DPU_EW_CFG, // second operands and lookup tables
    DPU_EW_CVT_OFFSET,
    DPU_EW_CVT_SCALE,
    DPU_EW_RELUX_CMP,
    DPU_OUT_CVT_OFFSET,
    DPU_OUT_CVT_SCALE,
    DPU_OUT_CVT_SHIFT,
    DPU_LUT_ACCESS_CFG, // bit 17: write; bit 16: which table; the rest counts from 0
    DPU_LUT_ACCESS_DATA,
    DPU_LUT_CFG,
    DPU_LUT_INFO, // widths of the tables' steps, as powers of two
    DPU_LUT_LE_START,
    DPU_LUT_LE_END,
    DPU_LUT_LO_START,
    DPU_LUT_LO_END,
    DPU_LUT_START_1, // RK3576: as LE_START
    DPU_LUT_START_2,
    DPU_LUT_START_3,
    DPU_LUT_END_1, // RK3576: as LO_END
    DPU_LUT_END_2,
    DPU_LUT_END_3,
    DPU_LUT_LE_SLOPE_SCALE,
    DPU_LUT_LE_SLOPE_SHIFT,
    DPU_LUT_LO_SLOPE_SCALE,
    DPU_LUT_LO_SLOPE_SHIFT,
    DPU_LUT_LE_SLOPE_SCALE_1, // RK3576: as the ones before
    DPU_LUT_LO_SLOPE_SCALE_1,
    DPU_LUT_LOW, // RK3576: values beyond the ends
    DPU_LUT_LOW_1,
    DPU_LUT_HIGH,
    DPU_LUT_HIGH_1,
    RDMA_S_POINTER,
    RDMA_WIDTH,
    RDMA_HEIGHT,
    RDMA_CHANNEL,
    RDMA_SRC_BASE, // address of the first operand of what works from memory
    RDMA_BS_CFG,   // what is in memory for the BS unit
    RDMA_BS_BASE,
    RDMA_BS_CONFIG_BASE, // address of what RK3576 has instead of registers of the bias unit
    RDMA_BS_CHANNEL,
    RDMA_BN_CFG, // what RK3576 has in memory for the BN unit
    RDMA_BN_BASE,
    RDMA_BN_DATA_BASE,
    RDMA_BN_CHANNEL,
    RDMA_EW_CFG,
    RDMA_EW_BASE, // … of the second
    RDMA_EW_NOTCH,
    RDMA_EW_SURF_STRIDE,
    RDMA_FEATURE_MODE_CFG,
    RDMA_SRC_DMA_CFG,
    RDMA_SURF_NOTCH,
    RDMA_PAD_CFG,
    RDMA_WEIGHT,
    RDMA_EW_SURF_NOTCH,
    RDMA_LINE_NOTCH,
    PPU_S_POINTER,
    PPU_IN_WIDTH,
    PPU_IN_HEIGHT,
    PPU_IN_CHANNEL,
    PPU_OUT_WIDTH,
    PPU_OUT_HEIGHT,
    PPU_OUT_CHANNEL,
    PPU_MODE_CFG, // which pool; gaps behind lines
    PPU_KERNEL_CFG,
    PPU_RECIP_WIDTH,
    PPU_RECIP_HEIGHT,
    PPU_PADDING_CFG,
    PPU_PADDING_VALUE_1,
    PPU_PADDING_VALUE_2,
    PPU_PADDING_VALUE_3,
    PPU_PADDING_VALUE_4,
    PPU_DST_BASE,
    PPU_DST_SURF_STRIDE,
    PPU_DATA_FORMAT, // precision; planes of indices
    PPU_MISC_CTRL,
    PPU_RDMA_S_POINTER,
    PPU_RDMA_IN_WIDTH,
    PPU_RDMA_IN_HEIGHT,
    PPU_RDMA_IN_CHANNEL,
    PPU_RDMA_BURSTS,
    PPU_RDMA_SRC_BASE,
    PPU_RDMA_LINE_STRIDE,
    PPU_RDMA_SURF_STRIDE,
    PPU_RDMA_DATA_FORMAT,
    DDMA_WR_CFG,
    DDMA_WSTRB,
    RKNN_REGISTER_COUNT,
};

/// Why bits of a register need not be read.
enum rknn_effect {
    NOTHING, // there are none
    INPUT,   // the conversion of a model's input, which its mean, deviation and scale say as well
    SIZE,    // sizes of a task's part of a tensor
    PLACE,   // where tensors lie, and in which order what is in them comes
    FLOATS,  // only of real numbers
    SPARE,   // what is written behind a tensor's last channel
    PACE,    // buffers, bursts, clocks: when something happens
};

/// Its address on the chip; 0: the chip does not have it, or where is not known.
uint32_t rknn_register_at(const struct chip *chip, enum rknn_register reg);

const char *rknn_register_name(enum rknn_register reg);

/// The bits that are read, or held to what the file's tables say of a node.
uint32_t rknn_register_read_bits(enum rknn_register reg);

/// The bits that may hold anything, and why. All others must be 0: no field is known to be there.
uint32_t rknn_register_free_bits(enum rknn_register reg, enum rknn_effect *why);

/// A field of a register: the bits from `high` down to `low`.
static inline uint32_t rknn_bits(uint32_t value, unsigned high, unsigned low)
{
    return value >> low & ((2u << (high - low)) - 1);
}
