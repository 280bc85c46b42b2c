// The registers that the emulator models, by name: where each generation of chips has them.
//
// A table of its own on purpose: the one of npu/model belongs to the reader that this emulator is
// to judge. Names are those of the RK3588's technical reference manual; RK3562 and RK3576 have
// theirs elsewhere, and some that RK3588 does not have. Facts: docs/rknn-format.md.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum emu_generation {
    EMU_RK3588,
    EMU_RK3568, // RK3566 too
    EMU_RK3562,
    EMU_RK3576, // RV1126B too
    EMU_RV1106, // RV1103 too
    EMU_N_GENERATIONS
};

// name, offset on RK3588, RK3568, RK3562, RK3576, RV1106; 0: it has none.
// clang-format off
#define EMU_REGISTERS(X) \
    /* CNA: fetches features and weights */ \
    X(CONV_CON1,           0x100c, 0x100c, 0x100c, 0x100c, 0x100c) \
    X(CONV_CON3,           0x1014, 0x1014, 0x1014, 0x1014, 0x1014) \
    X(DATA_SIZE0,          0x1020, 0x1020, 0x102c, 0x102c, 0x1020) \
    X(DATA_SIZE1,          0x1024, 0x1024, 0x1028, 0x1028, 0x1024) \
    X(DATA_CHANNEL_REAL,   0, 0, 0x107c, 0x107c, 0) \
    X(DMA_SIZE,            0, 0, 0x1078, 0x1078, 0) \
    X(WEIGHT_SIZE0,        0x1030, 0x1030, 0x101c, 0x101c, 0x1030) \
    X(WEIGHT_SIZE1,        0x1034, 0x1034, 0x1020, 0x1020, 0x1034) \
    X(WEIGHT_SIZE2,        0x1038, 0x1038, 0x1024, 0x1024, 0x1038) \
    X(WEIGHT_ZERO,         0, 0, 0x1074, 0x1074, 0) \
    X(CVT_CON0,            0x104c, 0x104c, 0x1048, 0x1048, 0x104c) \
    X(CVT_CON1,            0x1050, 0x1050, 0x104c, 0x104c, 0x1050) \
    X(CVT_CON2,            0x1054, 0x1054, 0x1050, 0x1050, 0x1054) \
    X(CVT_CON3,            0x1058, 0x1058, 0, 0, 0) \
    X(CVT_CON4,            0x105c, 0x105c, 0, 0, 0) \
    X(CVT_OFFSET,          0, 0, 0x1054, 0x1054, 0x101c) \
    X(CVT_OFFSET_1,        0, 0, 0x1058, 0x1058, 0x1058) \
    X(CVT_OFFSET_2,        0, 0, 0x105c, 0x105c, 0x105c) \
    X(CVT_OFFSET_3,        0, 0, 0x1060, 0x1060, 0x106c) \
    X(CVT_CON5,            0x1180, 0, 0, 0, 0) \
    X(PAD_CON0,            0x1068, 0x1068, 0x1080, 0x1080, 0x1068) \
    X(PAD_CON1,            0x1184, 0, 0x1084, 0x1084, 0x1184) \
    X(FEATURE_ADDR,        0x1070, 0x1070, 0x1088, 0x1088, 0x1070) \
    X(LINE_STRIDE,         0x107c, 0x107c, 0x1090, 0x1090, 0x107c) \
    X(SURFACE_STRIDE,      0x1080, 0x1080, 0x1094, 0x1094, 0x1080) \
    X(WEIGHT_ADDR,         0x1110, 0x1110, 0x1110, 0x1110, 0x1110) \
    /* CORE: multiplies and sums */ \
    X(CORE_MISC,           0x3010, 0x300c, 0x3018, 0x3018, 0x3010) \
    X(CORE_SIZE0,          0x3014, 0x3010, 0x301c, 0x301c, 0x3014) \
    X(CORE_SIZE1,          0x3018, 0x3014, 0x3020, 0x3020, 0x3018) \
    X(CLIP_TRUNCATE,       0x301c, 0, 0x3024, 0x3024, 0x301c) \
    /* DPU: from sums to outputs */ \
    X(FEATURE_MODE,        0x400c, 0x400c, 0x400c, 0x400c, 0x400c) \
    X(DATA_FORMAT,         0x4010, 0x4010, 0x4010, 0x4010, 0x4010) \
    X(OFFSET_PEND,         0x4014, 0, 0, 0x4014, 0) \
    X(DST_ADDR,            0x4020, 0x4020, 0x4018, 0x4018, 0x4020) \
    X(DST_SURF_STRIDE,     0x4024, 0x4024, 0x401c, 0x401c, 0x4024) \
    X(CUBE_WIDTH,          0x4030, 0x4030, 0x4020, 0x4020, 0x4030) \
    X(CUBE_HEIGHT,         0x4034, 0x4034, 0x4024, 0x4024, 0x4034) \
    X(CUBE_NOTCH,          0x4038, 0x4038, 0x4028, 0x4028, 0x4038) \
    X(CUBE_CHANNEL,        0x403c, 0x403c, 0x402c, 0x402c, 0x403c) \
    X(BS_CFG,              0x4040, 0x4040, 0x4038, 0x4038, 0x4040) \
    X(BS_ALU_CFG,          0x4044, 0x4044, 0x4040, 0x4040, 0x4018) \
    X(BS_MUL_CFG,          0x4048, 0x4048, 0x4044, 0x4044, 0x4048) \
    X(BS_RELUX_CMP,        0x404c, 0x404c, 0, 0, 0) \
    X(BS_OW_CFG,           0x4050, 0x4050, 0x4050, 0x4050, 0x4050) \
    X(BS_OW_OP,            0x4054, 0x4054, 0x4054, 0x4054, 0x4054) \
    X(BS_LOW_0,            0, 0, 0x4048, 0x4048, 0x404c) \
    X(BS_HIGH_0,           0, 0, 0x404c, 0x404c, 0x401c) \
    X(BS_LOW_1,            0, 0, 0x4058, 0x4058, 0x40d8) \
    X(BS_HIGH_1,           0, 0, 0x405c, 0x405c, 0x40dc) \
    X(WDMA_SIZE_0,         0x4058, 0, 0x4030, 0x4030, 0x4058) \
    X(WDMA_SIZE_1,         0x405c, 0, 0x4034, 0x4034, 0x405c) \
    X(BN_CFG,              0x4060, 0x4060, 0x4060, 0x4060, 0x4060) \
    X(BN_ALU_CFG,          0x4064, 0x4064, 0x4064, 0x4064, 0x4064) \
    X(BN_MUL_CFG,          0x4068, 0x4068, 0x4068, 0x4068, 0x4068) \
    X(BN_RELUX_CMP,        0x406c, 0x406c, 0, 0, 0) \
    X(BN_LOW_0,            0, 0, 0x406c, 0x406c, 0x406c) \
    X(BN_HIGH_0,           0, 0, 0x4070, 0x4070, 0x4028) \
    X(BN_LOW_1,            0, 0, 0x4074, 0x4074, 0x40e0) \
    X(BN_HIGH_1,           0, 0, 0x4078, 0x4078, 0x40e4) \
    X(EW_CFG,              0x4070, 0x4070, 0x407c, 0x407c, 0x4070) \
    X(EW_CVT_OFFSET,       0x4074, 0x4074, 0x4080, 0x4080, 0x4074) \
    X(EW_CVT_SCALE,        0x4078, 0x4078, 0x4084, 0x4084, 0x4078) \
    X(EW_RELUX_CMP,        0x407c, 0x407c, 0, 0, 0) \
    X(EW_LOW_0,            0, 0, 0x4088, 0x4088, 0x407c) \
    X(EW_HIGH_0,           0, 0, 0x408c, 0x408c, 0x402c) \
    X(EW_LOW_1,            0, 0, 0x40a4, 0x40a4, 0x40e8) \
    X(EW_HIGH_1,           0, 0, 0x40a8, 0x40a8, 0x40ec) \
    X(OUT_CVT_OFFSET,      0x4080, 0x4080, 0x40ac, 0x40ac, 0x4080) \
    X(OUT_CVT_SCALE,       0x4084, 0x4084, 0x40b0, 0x40b0, 0x4084) \
    X(OUT_CVT_SHIFT,       0x4088, 0x4088, 0x40b4, 0x40b4, 0x4088) \
    X(SURFACE_ADD,         0x40c0, 0x40c0, 0x40b8, 0x40b8, 0x40c0) \
    X(STREAM_PIECE,        0, 0, 0x40cc, 0x40cc, 0) \
    X(LUT_ACCESS_CFG,      0x4100, 0x4100, 0x4100, 0x4100, 0x4100) \
    X(LUT_ACCESS_DATA,     0x4104, 0x4104, 0x4104, 0x4104, 0x4104) \
    X(LUT_CFG,             0x4108, 0x4108, 0x4108, 0x4108, 0x4108) \
    X(LUT_INFO,            0x410c, 0x410c, 0x410c, 0x410c, 0x410c) \
    X(LUT_LE_START,        0x4110, 0x4110, 0x4110, 0x4110, 0x4110) \
    X(LUT_LE_END,          0x4114, 0x4114, 0x4114, 0, 0x4114) \
    X(LUT_LO_START,        0x4118, 0x4118, 0x4118, 0, 0x4118) \
    X(LUT_LO_END,          0x411c, 0x411c, 0x411c, 0, 0x411c) \
    X(LUT_LE_SLOPE_SCALE,  0x4120, 0x4120, 0x4120, 0, 0x4120) \
    X(LUT_LE_SLOPE_SHIFT,  0x4124, 0x4124, 0x4124, 0, 0x4124) \
    X(LUT_LO_SLOPE_SCALE,  0x4128, 0x4128, 0x4128, 0, 0x4128) \
    X(LUT_LO_SLOPE_SHIFT,  0x412c, 0x412c, 0x412c, 0, 0x412c) \
    X(LUT_START_1,         0, 0, 0, 0x4114, 0) \
    X(LUT_START_2,         0, 0, 0, 0x4118, 0) \
    X(LUT_START_3,         0, 0, 0, 0x411c, 0) \
    X(LUT_END,             0, 0, 0, 0x4140, 0) \
    X(LUT_END_1,           0, 0, 0, 0x4144, 0) \
    X(LUT_END_2,           0, 0, 0, 0x4148, 0) \
    X(LUT_END_3,           0, 0, 0, 0x414c, 0) \
    X(LUT_BELOW_SLOPE,     0, 0, 0, 0x4150, 0) \
    X(LUT_BELOW_SLOPE_1,   0, 0, 0, 0x4154, 0) \
    X(LUT_BELOW_SHIFT,     0, 0, 0, 0x4160, 0) \
    X(LUT_ABOVE_SLOPE,     0, 0, 0, 0x4170, 0) \
    X(LUT_ABOVE_SLOPE_1,   0, 0, 0, 0x4174, 0) \
    X(LUT_ABOVE_SHIFT,     0, 0, 0, 0x4184, 0) \
    X(LUT_BELOW_VALUE_0,   0, 0, 0, 0x4188, 0) \
    X(LUT_BELOW_VALUE_1,   0, 0, 0, 0x418c, 0) \
    X(LUT_ABOVE_VALUE_0,   0, 0, 0, 0x4190, 0) \
    X(LUT_ABOVE_VALUE_1,   0, 0, 0, 0x4194, 0) \
    /* DPU_RDMA: what the DPU reads from memory */ \
    X(RDMA_WIDTH,          0x500c, 0x500c, 0x500c, 0x500c, 0x500c) \
    X(RDMA_HEIGHT,         0x5010, 0x5010, 0x5010, 0x5010, 0x5010) \
    X(RDMA_CHANNEL,        0x5014, 0x5014, 0x5014, 0x5014, 0x5014) \
    X(RDMA_SRC_ADDR,       0x5018, 0x5018, 0x5018, 0x5018, 0x5018) \
    X(RDMA_BRDMA_CFG,      0x501c, 0x501c, 0x501c, 0x501c, 0x501c) \
    X(RDMA_BS_ADDR,        0x5020, 0x5020, 0x5020, 0x5020, 0x5020) \
    X(RDMA_BS_CONFIG_ADDR, 0, 0, 0, 0x5024, 0) \
    X(RDMA_NRDMA_CFG,      0x5028, 0x5028, 0x5028, 0x5028, 0x5028) \
    X(RDMA_BN_ADDR,        0x502c, 0x502c, 0x502c, 0x502c, 0x502c) \
    X(RDMA_BN_CONFIG_ADDR, 0, 0, 0, 0x5030, 0) \
    X(RDMA_ERDMA_CFG,      0x5034, 0x5034, 0x5034, 0x5034, 0x5034) \
    X(RDMA_EW_ADDR,        0x5038, 0x5038, 0x5038, 0x5038, 0x5038) \
    X(RDMA_EW_SURF_STRIDE, 0x5040, 0x5040, 0x5040, 0x5040, 0x5040) \
    X(RDMA_FEATURE_MODE,   0x5044, 0x5044, 0x5044, 0x5044, 0x5044) \
    X(RDMA_SRC_DMA_CFG,    0x5048, 0x5048, 0x5048, 0x5048, 0x5048) \
    X(RDMA_SURF_NOTCH,     0x504c, 0x504c, 0x504c, 0x504c, 0x504c) \
    X(RDMA_EW_SURF_NOTCH,  0x506c, 0x506c, 0, 0, 0) \
    X(RDMA_SRC_LINE_NOTCH, 0, 0, 0x5078, 0x5078, 0) \
    /* PPU and PPU_RDMA: pools */ \
    X(POOL_IN_WIDTH,       0x600c, 0x600c, 0x600c, 0x600c, 0x600c) \
    X(POOL_IN_HEIGHT,      0x6010, 0x6010, 0x6010, 0x6010, 0x6010) \
    X(POOL_IN_CHANNEL,     0x6014, 0x6014, 0x6014, 0x6014, 0x6014) \
    X(POOL_OUT_WIDTH,      0x6018, 0x6018, 0x6018, 0x6018, 0x6018) \
    X(POOL_OUT_HEIGHT,     0x601c, 0x601c, 0x601c, 0x601c, 0x601c) \
    X(POOL_OUT_CHANNEL,    0x6020, 0x6020, 0x6020, 0x6020, 0x6020) \
    X(POOL_MODE,           0x6024, 0x6024, 0x6024, 0x6024, 0x6024) \
    X(POOL_KERNEL,         0x6034, 0x6034, 0x6034, 0x6034, 0x6034) \
    X(POOL_RECIP_WIDTH,    0x6038, 0x6038, 0x6038, 0x6038, 0x6038) \
    X(POOL_RECIP_HEIGHT,   0x603c, 0x603c, 0x603c, 0x603c, 0x603c) \
    X(POOL_PAD,            0x6040, 0x6040, 0x6040, 0x6040, 0x6040) \
    X(POOL_PAD_VALUE,      0x6044, 0x6044, 0x6044, 0x6044, 0x6044) \
    X(POOL_DST_ADDR,       0x6070, 0x6070, 0x6070, 0x6070, 0x6070) \
    X(POOL_DST_SURF_STRIDE, 0x607c, 0x607c, 0x607c, 0x607c, 0x607c) \
    X(POOL_FORMAT,         0x6084, 0x6084, 0x6084, 0x6084, 0x6084) \
    X(POOL_SRC_ADDR,       0x701c, 0x701c, 0x701c, 0x701c, 0x701c) \
    X(POOL_SRC_LINE_STRIDE, 0x7024, 0x7024, 0x7024, 0x7024, 0x7024) \
    X(POOL_SRC_SURF_STRIDE, 0x7028, 0x7028, 0x7028, 0x7028, 0x7028) \
    X(POOL_SRC_FORMAT,     0x7030, 0x7030, 0x7030, 0x7030, 0x7030)
// clang-format on

#define X(name, ...) EMU_##name,
enum emu_register { EMU_REGISTERS(X) EMU_N_REGISTERS };
#undef X

// Blocks lie 0x1000 apart; each has two groups of registers.
#define EMU_N_BLOCKS   9
#define EMU_BLOCK_REGS 1024

/// 0: the generation has none.
uint16_t emu_register_at(enum emu_generation generation, enum emu_register reg);
const char *emu_register_name(enum emu_register reg);

/// The bits of the register at `offset` that the emulator reads, or knows to be without effect.
uint32_t emu_register_known_bits(enum emu_generation generation, uint32_t offset);

/// Those of them that change no result, by these tables.
uint32_t emu_register_inert_bits(enum emu_generation generation, uint32_t offset);

/// "without a name" where it has none.
const char *emu_register_name_at(enum emu_generation generation, uint32_t offset);

static inline uint32_t emu_field(uint32_t value, unsigned high, unsigned low)
{
    return value >> low & (uint32_t)((1ull << (high - low + 1)) - 1);
}

/// The low `bits` as a number with a sign.
static inline int32_t emu_signed(uint32_t value, unsigned bits)
{
    return (int32_t)(value << (32 - bits)) >> (32 - bits);
}
