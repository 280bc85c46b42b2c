// The NPU's registers by name: addresses per generation of chips. RK3588's are those of the
// technical reference manual; the others' follow from the positions of the same values in files for
// those chips.
#include "npu/model/rknn/regs/rknn_registers.h"

// Their addresses, in the order of enum chip_generation (0: there is none, or it is not known), and
// which of their bits are read, and which need not be.
static const struct {
    const char *name;
    uint16_t at[CHIP_N_GENERATIONS];
    uint32_t read, free;
    enum rknn_effect why; // of free
} registers[RKNN_REGISTER_COUNT] = {
    // clang-format off
    //   RK3588  RK3576  RK3562  RV1106  RK3566
    [CNA_S_POINTER] = {"CNA_S_POINTER", {0x1004, 0x1004, 0x1004, 0x1004, 0x1004}, 0, 0x0, PACE},
    [CNA_CONV_CON1] = {"CNA_CONV_CON1", {0x100c, 0x100c, 0x100c, 0x100c, 0x100c}, 0, 0xf000f000, PLACE},
    [CNA_CONV_CON2] = {"CNA_CONV_CON2", {0x1010, 0x1010, 0x1010, 0x1010, 0x1010}, 0, 0xf0ffffff, PACE},
    [CNA_CONV_CON3] = {"CNA_CONV_CON3", {0x1014, 0x1014, 0x1014, 0x1014, 0x1014}, 0x03ff3f3f, 0xf0000000, PACE},
    [CNA_BUFFER_PLAN] = {"CNA_BUFFER_PLAN", {     0, 0x1018, 0x1018,      0, 0x1018}, 0, 0xffffffff, PACE},
    [CNA_CVT_OFFSET] = {"CNA_CVT_OFFSET", {     0,      0,      0, 0x101c,      0}, 0, 0xffffffff, INPUT},
    [CNA_DATA_SIZE0] = {"CNA_DATA_SIZE0", {0x1020, 0x102c, 0x102c, 0x1020, 0x1020}, 0, 0x3fff3fff, SIZE},
    [CNA_DATA_SIZE1] = {"CNA_DATA_SIZE1", {0x1024, 0x1028, 0x1028, 0x1024, 0x1024}, 0, 0xffffffff, SIZE},
    [CNA_DATA_SIZE2] = {"CNA_DATA_SIZE2", {0x1028, 0x1030, 0x1030, 0x1028, 0x1028}, 0, 0xffffffff, SIZE},
    [CNA_DATA_SIZE3] = {"CNA_DATA_SIZE3", {0x102c, 0x1034, 0x1034, 0x102c, 0x102c}, 0, 0xffffff, SIZE},
    [CNA_WEIGHT_SIZE0] = {"CNA_WEIGHT_SIZE0", {0x1030, 0x101c, 0x101c, 0x1030, 0x1030}, 0, 0xffffffff, SIZE},
    [CNA_WEIGHT_SIZE1] = {"CNA_WEIGHT_SIZE1", {0x1034, 0x1020, 0x1020, 0x1034, 0x1034}, 0, 0x207fffff, SIZE},
    [CNA_WEIGHT_SIZE2] = {"CNA_WEIGHT_SIZE2", {0x1038, 0x1024, 0x1024, 0x1038, 0x1038}, 0x1f1f0000, 0x3fff, SIZE},
    [CNA_CORE_PLAN] = {"CNA_CORE_PLAN", {     0, 0x1038, 0x1038,      0,      0}, 0, 0xffffffff, PACE},
    [CNA_BUFFER_0] = {"CNA_BUFFER_0", {     0, 0x103c, 0x103c, 0x103c,      0}, 0, 0xffffffff, PACE},
    [CNA_CBUF_CON0] = {"CNA_CBUF_CON0", {0x1040, 0x1040, 0x1040, 0x1040, 0x1040}, 0, 0xffffffff, PACE},
    [CNA_CBUF_CON1] = {"CNA_CBUF_CON1", {0x1044, 0x1044, 0x1044, 0x1044, 0x1044}, 0, 0xffffffff, PACE},
    [CNA_BUFFER_1] = {"CNA_BUFFER_1", {     0,      0,      0, 0x1048,      0}, 0, 0xffffffff, PACE},
    [CNA_CVT_CON0] = {"CNA_CVT_CON0", {0x104c, 0x1048, 0x1048, 0x104c, 0x104c}, 0, 0xffffffff, INPUT},
    [CNA_CVT_CON1] = {"CNA_CVT_CON1", {0x1050,      0,      0, 0x1050, 0x1050}, 0, 0xffffffff, INPUT},
    [CNA_CVT_SCALES] = {"CNA_CVT_SCALES", {     0, 0x104c, 0x104c,      0,      0}, 0, 0xffffffff, INPUT},
    [CNA_CVT_CON2] = {"CNA_CVT_CON2", {0x1054, 0x1050, 0x1050, 0x1054, 0x1054}, 0, 0xffffffff, INPUT},
    [CNA_CVT_CON3] = {"CNA_CVT_CON3", {0x1058, 0x1054, 0x1054, 0x1058, 0x1058}, 0, 0xffffffff, INPUT},
    [CNA_CVT_CON4] = {"CNA_CVT_CON4", {0x105c, 0x1058, 0x1058, 0x105c, 0x105c}, 0, 0xffffffff, INPUT},
    [CNA_CVT_CON5] = {"CNA_CVT_CON5", {0x1180, 0x105c, 0x105c,      0,      0}, 0, 0xffffffff, INPUT},
    [CNA_FC_CON0] = {"CNA_FC_CON0", {0x1060, 0x1060, 0x1060, 0x1060, 0x1060}, 0, 0x0, NOTHING},
    [CNA_FC_CON1] = {"CNA_FC_CON1", {0x1064, 0x1064, 0x1064, 0x1064, 0x1064}, 0, 0x0, NOTHING},
    [CNA_PAD_CON0] = {"CNA_PAD_CON0", {0x1068,      0,      0, 0x1068, 0x1068}, 0xffffffff, 0, NOTHING},
    [CNA_PADDING] = {"CNA_PADDING", {     0, 0x1080, 0x1080,      0,      0}, 0xffff, 0xffff0000, SIZE},
    [CNA_DMA_CON3] = {"CNA_DMA_CON3", {     0, 0x106c, 0x106c,      0,      0}, 0, 0x20, PACE},
    [CNA_CVT_OFFSET_3] = {"CNA_CVT_OFFSET_3", {     0,      0,      0, 0x106c,      0}, 0, 0xffffffff, INPUT},
    [CNA_FEATURE_BASE] = {"CNA_FEATURE_BASE", {0x1070, 0x1088, 0x1088, 0x1070, 0x1070}, 0, 0xffffffff, PLACE},
    [CNA_PAD_RAW] = {"CNA_PAD_RAW", {     0, 0x1070, 0x1070,      0,      0}, 0, 0xffffffff, INPUT},
    [CNA_FC_CON2] = {"CNA_FC_CON2", {0x1074,      0,      0, 0x1074, 0x1074}, 0, 0x0, NOTHING},
    [CNA_WEIGHT_ZERO] = {"CNA_WEIGHT_ZERO", {     0, 0x1074, 0x1074,      0,      0}, 0, 0x0, NOTHING},
    [CNA_DMA_CON0] = {"CNA_DMA_CON0", {0x1078, 0x108c, 0x108c, 0x1078, 0x1078}, 0, 0xffffffff, PACE},
    [CNA_LINE_STRIDE] = {"CNA_LINE_STRIDE", {0x107c, 0x1090, 0x1090, 0x107c, 0x107c}, 0, 0xffffffff, PLACE},
    [CNA_SURF_STRIDE] = {"CNA_SURF_STRIDE", {0x1080, 0x1094, 0x1094, 0x1080, 0x1080}, 0, 0xffffffff, PLACE},
    [CNA_SURF_READ] = {"CNA_SURF_READ", {     0, 0x1098, 0x1098,      0,      0}, 0, 0xffffffff, PLACE},
    [CNA_FC_DATA_SIZE0] = {"CNA_FC_DATA_SIZE0", {0x1084, 0x1078, 0x1078, 0x1084, 0x1084}, 0, 0x3fff3fff, SIZE},
    [CNA_FC_DATA_SIZE1] = {"CNA_FC_DATA_SIZE1", {0x1088, 0x107c, 0x107c, 0x1088, 0x1088}, 0, 0xffff, SIZE},
    [CNA_PACKED_PIXELS] = {"CNA_PACKED_PIXELS", {     0,      0,      0, 0x108c,      0}, 0, 0xffffffff, PLACE},
    [CNA_DCOMP_CTRL] = {"CNA_DCOMP_CTRL", {0x1100, 0x1100, 0x1100, 0x1100, 0x1100}, 0, 0x0, NOTHING},
    [CNA_DCOMP_REGNUM] = {"CNA_DCOMP_REGNUM", {0x1104, 0x1104, 0x1104, 0x1104, 0x1104}, 0, 0x0, NOTHING},
    [CNA_DCOMP_ADDR0] = {"CNA_DCOMP_ADDR0", {0x1110, 0x1110, 0x1110, 0x1110, 0x1110}, 0, 0xffffffff, PLACE},
    [CNA_PAD_CON1] = {"CNA_PAD_CON1", {0x1184, 0x1084, 0x1084, 0x1184,      0}, 0xffffffff, 0, NOTHING},
    [CNA_ENTRIES] = {"CNA_ENTRIES", {     0,      0,      0, 0x1188,      0}, 0, 0xffffffff, PACE},
    [CNA_WIDTHS] = {"CNA_WIDTHS", {     0, 0x118c, 0x118c, 0x118c,      0}, 0, 0xffffffff, SIZE},
    [CMAC_S_POINTER] = {"CMAC_S_POINTER", {     0,      0,      0,      0, 0x2004}, 0, 0x0, PACE},
    [CMAC_MISC_CFG] = {"CMAC_MISC_CFG", {     0,      0,      0,      0, 0x200c}, 0, 0x0, NOTHING},
    [CORE_S_POINTER] = {"CORE_S_POINTER", {0x3004, 0x3004, 0x3004, 0x3004, 0x3004}, 0, 0x0, PACE},
    [CORE_MAC_GATING] = {"CORE_MAC_GATING", {0x300c,      0,      0, 0x300c,      0}, 0, 0x7ffffff, PACE},
    [CORE_MISC_CFG] = {"CORE_MISC_CFG", {0x3010, 0x3018, 0x3018, 0x3010, 0x300c}, 0, 0x10000094, PACE},
    [CORE_DATAOUT_SIZE_0] = {"CORE_DATAOUT_SIZE_0", {0x3014, 0x301c, 0x301c, 0x3014, 0x3010}, 0, 0xffffffff, SIZE},
    [CORE_DATAOUT_SIZE_1] = {"CORE_DATAOUT_SIZE_1", {0x3018, 0x3020, 0x3020, 0x3018, 0x3014}, 0, 0xffff, SIZE},
    [CORE_CLIP_TRUNCATE] = {"CORE_CLIP_TRUNCATE", {0x301c, 0x3024, 0x3024, 0x301c,      0}, 0x3ff, 0, NOTHING},
    [DPU_S_POINTER] = {"DPU_S_POINTER", {0x4004, 0x4004, 0x4004, 0x4004, 0x4004}, 0, 0x0, PACE},
    [DPU_FEATURE_MODE_CFG] = {"DPU_FEATURE_MODE_CFG", {0x400c, 0x400c, 0x400c, 0x400c, 0x400c}, 0, 0xffffffe0, PLACE},
    [DPU_DATA_FORMAT] = {"DPU_DATA_FORMAT", {0x4010, 0x4010, 0x4010, 0x4010, 0x4010}, 0xffffffff, 0, NOTHING},
    [DPU_OFFSET_PEND] = {"DPU_OFFSET_PEND", {0x4014, 0x4014, 0x4014, 0x4014, 0x4014}, 0, 0xffff, SPARE},
    [DPU_DST_BASE] = {"DPU_DST_BASE", {0x4020, 0x4018, 0x4018, 0x4020, 0x4020}, 0, 0xffffffff, PLACE},
    [DPU_DST_SURF_STRIDE] = {"DPU_DST_SURF_STRIDE", {0x4024, 0x401c, 0x401c, 0x4024, 0x4024}, 0, 0xffffffff, PLACE},
    [DPU_DATA_CUBE_WIDTH] = {"DPU_DATA_CUBE_WIDTH", {0x4030, 0x4020, 0x4020, 0x4030, 0x4030}, 0, 0x1fff1fff, SIZE},
    [DPU_DATA_CUBE_HEIGHT] = {"DPU_DATA_CUBE_HEIGHT", {0x4034, 0x4024, 0x4024, 0x4034, 0x4034}, 0, 0x1dff1fff, SIZE},
    [DPU_DATA_CUBE_NOTCH] = {"DPU_DATA_CUBE_NOTCH", {0x4038, 0x4028, 0x4028, 0x4038, 0x4038}, 0, 0xffffffff, PLACE},
    [DPU_DATA_CUBE_CHANNEL] = {"DPU_DATA_CUBE_CHANNEL", {0x403c, 0x402c, 0x402c, 0x403c, 0x403c}, 0, 0x1fff1fff, SIZE},
    [DPU_WRITE_SIZE_0] = {"DPU_WRITE_SIZE_0", {0x4058, 0x4030, 0x4030, 0x4058,      0}, 0, 0xffffffff, SIZE},
    [DPU_WRITE_SIZE_1] = {"DPU_WRITE_SIZE_1", {0x405c, 0x4034, 0x4034, 0x405c,      0}, 0, 0xffffffff, SIZE},
    [DPU_SURFACE_ADD] = {"DPU_SURFACE_ADD", {0x40c0, 0x40b8, 0x40b8, 0x40c0, 0x40c0}, 0, 0xffffffff, PLACE},
    [DPU_BYTE_ENABLES] = {"DPU_BYTE_ENABLES", {     0, 0x40c0, 0x40c0,      0,      0}, 0, 0x4440103, PLACE},
    [DPU_PLACE_0] = {"DPU_PLACE_0", {     0, 0x40c8, 0x40c8,      0,      0}, 0, 0xffffffff, PLACE},
    [DPU_PLACE_1] = {"DPU_PLACE_1", {     0, 0x40cc, 0x40cc,      0,      0}, 0, 0xffffffff, PLACE},
    [DPU_BYTES_WRITTEN] = {"DPU_BYTES_WRITTEN", {     0, 0x40d0,      0,      0,      0}, 0, 0x48ffff, PLACE},
    [DPU_BS_CFG] = {"DPU_BS_CFG", {0x4040, 0x4038, 0x4038, 0x4040, 0x4040}, 0x1f3fff, 0, NOTHING},
    [DPU_BS_ALU_CFG] = {"DPU_BS_ALU_CFG", {0x4044,      0, 0x4040, 0x4044, 0x4044}, 0xffffffff, 0, NOTHING},
    [DPU_BS_MUL_CFG] = {"DPU_BS_MUL_CFG", {0x4048, 0x4044, 0x4044, 0x4048, 0x4048}, 0xffff3f03, 0, NOTHING},
    [DPU_BS_RELUX_CMP] = {"DPU_BS_RELUX_CMP", {0x404c,      0,      0,      0, 0x404c}, 0xffffffff, 0, NOTHING},
    [DPU_BS_OW_CFG] = {"DPU_BS_OW_CFG", {0x4050, 0x4050, 0x4050, 0x4050, 0x4050}, 0x080f0003, 0xf0f0fffc, PLACE},
    [DPU_BS_OW_OP] = {"DPU_BS_OW_OP", {0x4054,      0, 0x4054, 0x4054, 0x4054}, 0xffffffff, 0, NOTHING},
    [DPU_BN_CFG] = {"DPU_BN_CFG", {0x4060, 0x4060, 0x4060, 0x4060, 0x4060}, 0xf0fff, 0, NOTHING},
    [DPU_BN_ALU_CFG] = {"DPU_BN_ALU_CFG", {0x4064,      0, 0x4064, 0x4064, 0x4064}, 0xffffffff, 0, NOTHING},
    [DPU_BN_MUL_CFG] = {"DPU_BN_MUL_CFG", {0x4068,      0, 0x4068, 0x4068, 0x4068}, 0xffff3f03, 0, NOTHING},
    [DPU_BN_RELUX_CMP] = {"DPU_BN_RELUX_CMP", {0x406c,      0,      0,      0, 0x406c}, 0xffffffff, 0, NOTHING},
    [DPU_BS_LOW_0] = {"DPU_BS_LOW_0", {     0, 0x4048, 0x4048,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BS_HIGH_0] = {"DPU_BS_HIGH_0", {     0, 0x404c, 0x404c,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BS_LOW_1] = {"DPU_BS_LOW_1", {     0, 0x4058, 0x4058,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BS_HIGH_1] = {"DPU_BS_HIGH_1", {     0, 0x405c, 0x405c,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BN_LOW_0] = {"DPU_BN_LOW_0", {     0, 0x406c, 0x406c,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BN_HIGH_0] = {"DPU_BN_HIGH_0", {     0, 0x4070, 0x4070,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BN_LOW_1] = {"DPU_BN_LOW_1", {     0, 0x4074, 0x4074,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BN_HIGH_1] = {"DPU_BN_HIGH_1", {     0, 0x4078, 0x4078,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_EW_LOW_0] = {"DPU_EW_LOW_0", {     0, 0x4088, 0x4088,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_EW_HIGH_0] = {"DPU_EW_HIGH_0", {     0, 0x408c, 0x408c,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_EW_LOW_1] = {"DPU_EW_LOW_1", {     0, 0x40a4, 0x40a4,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_EW_HIGH_1] = {"DPU_EW_HIGH_1", {     0, 0x40a8, 0x40a8,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_SOURCE_OFFSET] = {"DPU_SOURCE_OFFSET", {     0,      0,      0, 0x4018,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_0] = {"DPU_BOUND_0", {     0,      0,      0, 0x401c,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_1] = {"DPU_BOUND_1", {     0,      0,      0, 0x4028,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_2] = {"DPU_BOUND_2", {     0,      0,      0, 0x402c,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_3] = {"DPU_BOUND_3", {     0,      0,      0, 0x404c,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_4] = {"DPU_BOUND_4", {     0,      0,      0, 0x406c,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_5] = {"DPU_BOUND_5", {     0,      0,      0, 0x407c,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_6] = {"DPU_BOUND_6", {     0,      0,      0, 0x40d8,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_7] = {"DPU_BOUND_7", {     0,      0,      0, 0x40dc,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_8] = {"DPU_BOUND_8", {     0,      0,      0, 0x40e0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_9] = {"DPU_BOUND_9", {     0,      0,      0, 0x40e4,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_10] = {"DPU_BOUND_10", {     0,      0,      0, 0x40e8,      0}, 0xffffffff, 0, NOTHING},
    [DPU_BOUND_11] = {"DPU_BOUND_11", {     0,      0,      0, 0x40ec,      0}, 0xffffffff, 0, NOTHING},
    [DPU_EW_CFG] = {"DPU_EW_CFG", {0x4070, 0x407c, 0x407c, 0x4070, 0x4070}, 0xf1ffe7ff, 0, NOTHING},
    [DPU_EW_CVT_OFFSET] = {"DPU_EW_CVT_OFFSET", {0x4074, 0x4080, 0x4080, 0x4074, 0x4074}, 0xffffffff, 0, NOTHING},
    [DPU_EW_CVT_SCALE] = {"DPU_EW_CVT_SCALE", {0x4078, 0x4084, 0x4084, 0x4078, 0x4078}, 0x3fffff, 0, NOTHING},
    [DPU_EW_RELUX_CMP] = {"DPU_EW_RELUX_CMP", {0x407c,      0,      0,      0, 0x407c}, 0xffffffff, 0, NOTHING},
    [DPU_OUT_CVT_OFFSET] = {"DPU_OUT_CVT_OFFSET", {0x4080, 0x40ac, 0x40ac, 0x4080, 0x4080}, 0xffffffff, 0, NOTHING},
    [DPU_OUT_CVT_SCALE] = {"DPU_OUT_CVT_SCALE", {0x4084, 0x40b0, 0x40b0, 0x4084, 0x4084}, 0xffff, 0x10000, FLOATS},
    [DPU_OUT_CVT_SHIFT] = {"DPU_OUT_CVT_SHIFT", {0x4088, 0x40b4, 0x40b4, 0x4088, 0x4088}, 0xc00fffff, 0, NOTHING},
    [DPU_LUT_ACCESS_CFG] = {"DPU_LUT_ACCESS_CFG", {0x4100, 0x4100, 0x4100, 0x4100, 0x4100}, 0, 0x0, NOTHING},
    [DPU_LUT_ACCESS_DATA] = {"DPU_LUT_ACCESS_DATA", {0x4104, 0x4104, 0x4104, 0x4104, 0x4104}, 0, 0x0, NOTHING},
    [DPU_LUT_CFG] = {"DPU_LUT_CFG", {0x4108, 0x4108, 0x4108, 0x4108, 0x4108}, 0, 0x0, NOTHING},
    [DPU_LUT_INFO] = {"DPU_LUT_INFO", {0x410c, 0x410c, 0x410c, 0x410c, 0x410c}, 0, 0x0, NOTHING},
    [DPU_LUT_LE_START] = {"DPU_LUT_LE_START", {0x4110, 0x4110, 0x4110, 0x4110, 0x4110}, 0, 0x0, NOTHING},
    [DPU_LUT_LE_END] = {"DPU_LUT_LE_END", {0x4114,      0, 0x4114, 0x4114, 0x4114}, 0, 0x0, NOTHING},
    [DPU_LUT_LO_START] = {"DPU_LUT_LO_START", {0x4118,      0, 0x4118, 0x4118, 0x4118}, 0, 0x0, NOTHING},
    [DPU_LUT_LO_END] = {"DPU_LUT_LO_END", {0x411c, 0x4140, 0x411c, 0x411c, 0x411c}, 0, 0x0, NOTHING},
    [DPU_LUT_START_1] = {"DPU_LUT_START_1", {     0, 0x4114,      0,      0,      0}, 0, 0x0, NOTHING},
    [DPU_LUT_START_2] = {"DPU_LUT_START_2", {     0, 0x4118,      0,      0,      0}, 0, 0x0, NOTHING},
    [DPU_LUT_START_3] = {"DPU_LUT_START_3", {     0, 0x411c,      0,      0,      0}, 0, 0x0, NOTHING},
    [DPU_LUT_END_1] = {"DPU_LUT_END_1", {     0, 0x4144,      0,      0,      0}, 0, 0x0, NOTHING},
    [DPU_LUT_END_2] = {"DPU_LUT_END_2", {     0, 0x4148,      0,      0,      0}, 0, 0x0, NOTHING},
    [DPU_LUT_END_3] = {"DPU_LUT_END_3", {     0, 0x414c,      0,      0,      0}, 0, 0x0, NOTHING},
    [DPU_LUT_LE_SLOPE_SCALE] = {"DPU_LUT_LE_SLOPE_SCALE", {0x4120, 0x4150, 0x4120, 0x4120, 0x4120}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_LE_SLOPE_SHIFT] = {"DPU_LUT_LE_SLOPE_SHIFT", {0x4124, 0x4160, 0x4124, 0x4124, 0x4124}, 0x1f1f1f1f, 0, NOTHING},
    [DPU_LUT_LO_SLOPE_SCALE] = {"DPU_LUT_LO_SLOPE_SCALE", {0x4128, 0x4170, 0x4128, 0x4128, 0x4128}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_LO_SLOPE_SHIFT] = {"DPU_LUT_LO_SLOPE_SHIFT", {0x412c, 0x4184, 0x412c, 0x412c, 0x412c}, 0x1f1f1fff, 0, NOTHING},
    [DPU_LUT_LE_SLOPE_SCALE_1] = {"DPU_LUT_LE_SLOPE_SCALE_1", {     0, 0x4154,      0,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_LO_SLOPE_SCALE_1] = {"DPU_LUT_LO_SLOPE_SCALE_1", {     0, 0x4174,      0,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_LOW] = {"DPU_LUT_LOW", {     0, 0x4188,      0,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_LOW_1] = {"DPU_LUT_LOW_1", {     0, 0x418c,      0,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_HIGH] = {"DPU_LUT_HIGH", {     0, 0x4190,      0,      0,      0}, 0xffffffff, 0, NOTHING},
    [DPU_LUT_HIGH_1] = {"DPU_LUT_HIGH_1", {     0, 0x4194,      0,      0,      0}, 0xffffffff, 0, NOTHING},
    [RDMA_S_POINTER] = {"RDMA_S_POINTER", {0x5004, 0x5004, 0x5004, 0x5004, 0x5004}, 0, 0x0, PACE},
    [RDMA_WIDTH] = {"RDMA_WIDTH", {0x500c, 0x500c, 0x500c, 0x500c, 0x500c}, 0, 0x1fff, SIZE},
    [RDMA_HEIGHT] = {"RDMA_HEIGHT", {0x5010, 0x5010, 0x5010, 0x5010, 0x5010}, 0, 0x1fff1fff, SIZE},
    [RDMA_CHANNEL] = {"RDMA_CHANNEL", {0x5014, 0x5014, 0x5014, 0x5014, 0x5014}, 0, 0x1fff, SIZE},
    [RDMA_SRC_BASE] = {"RDMA_SRC_BASE", {0x5018, 0x5018, 0x5018, 0x5018, 0x5018}, 0, 0xffffffff, PLACE},
    [RDMA_BS_CFG] = {"RDMA_BS_CFG", {0x501c, 0x501c, 0x501c, 0x501c, 0x501c}, 0x71f, 0, NOTHING},
    [RDMA_BS_BASE] = {"RDMA_BS_BASE", {0x5020, 0x5020, 0x5020, 0x5020, 0x5020}, 0, 0xffffffff, PLACE},
    [RDMA_BS_CONFIG_BASE] = {"RDMA_BS_CONFIG_BASE", {     0, 0x5024,      0,      0,      0}, 0, 0xffffffff, PLACE},
    [RDMA_BS_CHANNEL] = {"RDMA_BS_CHANNEL", {     0,      0,      0,      0, 0x5024}, 0, 0x1fff, SIZE},
    [RDMA_BN_CFG] = {"RDMA_BN_CFG", {0x5028, 0x5028, 0x5028, 0x5028, 0x5028}, 0x11f, 0, NOTHING},
    [RDMA_BN_BASE] = {"RDMA_BN_BASE", {0x502c, 0x5030, 0x502c, 0x502c, 0x502c}, 0, 0xffffffff, PLACE},
    [RDMA_BN_DATA_BASE] = {"RDMA_BN_DATA_BASE", {     0, 0x502c,      0,      0,      0}, 0, 0xffffffff, PLACE},
    [RDMA_BN_CHANNEL] = {"RDMA_BN_CHANNEL", {     0,      0,      0,      0, 0x5030}, 0, 0x1fff, SIZE},
    [RDMA_EW_CFG] = {"RDMA_EW_CFG", {0x5034, 0x5034, 0x5034, 0x5034, 0x5034}, 0, 0xf000004f, PLACE},
    [RDMA_EW_BASE] = {"RDMA_EW_BASE", {0x5038, 0x5038, 0x5038, 0x5038, 0x5038}, 0, 0xffffffff, PLACE},
    [RDMA_EW_NOTCH] = {"RDMA_EW_NOTCH", {     0,      0,      0,      0, 0x503c}, 0, 0xffffffff, PLACE},
    [RDMA_EW_SURF_STRIDE] = {"RDMA_EW_SURF_STRIDE", {0x5040, 0x5040, 0x5040, 0x5040, 0x5040}, 0, 0xffffffff, PLACE},
    [RDMA_FEATURE_MODE_CFG] = {"RDMA_FEATURE_MODE_CFG", {0x5044, 0x5044, 0x5044, 0x5044, 0x5044}, 0, 0x40ffffff, PLACE},
    [RDMA_SRC_DMA_CFG] = {"RDMA_SRC_DMA_CFG", {0x5048, 0x5048, 0x5048, 0x5048, 0x5048}, 0, 0xffffffff, PLACE},
    [RDMA_SURF_NOTCH] = {"RDMA_SURF_NOTCH", {0x504c, 0x504c, 0x504c, 0x504c, 0x504c}, 0, 0xffffffff, PLACE},
    [RDMA_PAD_CFG] = {"RDMA_PAD_CFG", {0x5064, 0x5064, 0x5064, 0x5064, 0x5064}, 0, 0x0, NOTHING},
    [RDMA_WEIGHT] = {"RDMA_WEIGHT", {0x5068,      0,      0, 0x5068, 0x5068}, 0, 0xffffffff, PACE},
    [RDMA_EW_SURF_NOTCH] = {"RDMA_EW_SURF_NOTCH", {0x506c, 0x506c, 0x506c, 0x506c, 0x506c}, 0, 0xffffffff, PLACE},
    [RDMA_LINE_NOTCH] = {"RDMA_LINE_NOTCH", {     0, 0x5078, 0x5078,      0,      0}, 0, 0xffffffff, PLACE},
    [PPU_S_POINTER] = {"PPU_S_POINTER", {0x6004, 0x6004, 0x6004, 0x6004, 0x6004}, 0, 0x0, PACE},
    [PPU_IN_WIDTH] = {"PPU_IN_WIDTH", {0x600c, 0x600c, 0x600c, 0x600c, 0x600c}, 0, 0x1fff, SIZE},
    [PPU_IN_HEIGHT] = {"PPU_IN_HEIGHT", {0x6010, 0x6010, 0x6010, 0x6010, 0x6010}, 0, 0x1fff, SIZE},
    [PPU_IN_CHANNEL] = {"PPU_IN_CHANNEL", {0x6014, 0x6014, 0x6014, 0x6014, 0x6014}, 0, 0x1fff, SIZE},
    [PPU_OUT_WIDTH] = {"PPU_OUT_WIDTH", {0x6018, 0x6018, 0x6018, 0x6018, 0x6018}, 0, 0x1fff, SIZE},
    [PPU_OUT_HEIGHT] = {"PPU_OUT_HEIGHT", {0x601c, 0x601c, 0x601c, 0x601c, 0x601c}, 0, 0x1fff, SIZE},
    [PPU_OUT_CHANNEL] = {"PPU_OUT_CHANNEL", {0x6020, 0x6020, 0x6020, 0x6020, 0x6020}, 0, 0x1fff, SIZE},
    [PPU_MODE_CFG] = {"PPU_MODE_CFG", {0x6024, 0x6024, 0x6024, 0x6024, 0x6024}, 0x1fff00f3, 0, NOTHING},
    [PPU_KERNEL_CFG] = {"PPU_KERNEL_CFG", {0x6034, 0x6034, 0x6034, 0x6034, 0x6034}, 0xff0f0f, 0, NOTHING},
    [PPU_RECIP_WIDTH] = {"PPU_RECIP_WIDTH", {0x6038, 0x6038, 0x6038, 0x6038, 0x6038}, 0x1ffff, 0, NOTHING},
    [PPU_RECIP_HEIGHT] = {"PPU_RECIP_HEIGHT", {0x603c, 0x603c, 0x603c, 0x603c, 0x603c}, 0x1ffff, 0, NOTHING},
    [PPU_PADDING_CFG] = {"PPU_PADDING_CFG", {0x6040, 0x6040, 0x6040, 0x6040, 0x6040}, 0x7777, 0, NOTHING},
    [PPU_PADDING_VALUE_1] = {"PPU_PADDING_VALUE_1", {0x6044, 0x6044, 0x6044, 0x6044, 0x6044}, 0xffffffff, 0, NOTHING},
    [PPU_PADDING_VALUE_2] = {"PPU_PADDING_VALUE_2", {0x6048, 0x6048, 0x6048, 0x6048, 0x6048}, 0xffffffff, 0, NOTHING},
    [PPU_PADDING_VALUE_3] = {"PPU_PADDING_VALUE_3", {0x604c, 0x604c, 0x604c, 0x604c, 0x604c}, 0xffffffff, 0, NOTHING},
    [PPU_PADDING_VALUE_4] = {"PPU_PADDING_VALUE_4", {0x6050, 0x6050, 0x6050, 0x6050, 0x6050}, 0xffffffff, 0, NOTHING},
    [PPU_DST_BASE] = {"PPU_DST_BASE", {0x6070, 0x6070, 0x6070, 0x6070, 0x6070}, 0, 0xffffffff, PLACE},
    [PPU_DST_SURF_STRIDE] = {"PPU_DST_SURF_STRIDE", {0x607c, 0x607c, 0x607c, 0x607c, 0x607c}, 0, 0xffffffff, PLACE},
    [PPU_DATA_FORMAT] = {"PPU_DATA_FORMAT", {0x6084, 0x6084, 0x6084, 0x6084, 0x6084}, 0, 0xfffffff7, PLACE},
    [PPU_MISC_CTRL] = {"PPU_MISC_CTRL", {0x60dc, 0x60dc, 0x60dc, 0x60dc, 0x60dc}, 0, 0xffffffff, PACE},
    [PPU_RDMA_S_POINTER] = {"PPU_RDMA_S_POINTER", {0x7004, 0x7004, 0x7004, 0x7004, 0x7004}, 0, 0x0, PACE},
    [PPU_RDMA_IN_WIDTH] = {"PPU_RDMA_IN_WIDTH", {0x700c, 0x700c, 0x700c, 0x700c, 0x700c}, 0, 0x1fff, SIZE},
    [PPU_RDMA_IN_HEIGHT] = {"PPU_RDMA_IN_HEIGHT", {0x7010, 0x7010, 0x7010, 0x7010, 0x7010}, 0, 0x1fff, SIZE},
    [PPU_RDMA_IN_CHANNEL] = {"PPU_RDMA_IN_CHANNEL", {0x7014, 0x7014, 0x7014, 0x7014, 0x7014}, 0, 0x1fff, SIZE},
    [PPU_RDMA_BURSTS] = {"PPU_RDMA_BURSTS", {     0,      0,      0,      0, 0x7018}, 0, 0x1, PACE},
    [PPU_RDMA_SRC_BASE] = {"PPU_RDMA_SRC_BASE", {0x701c, 0x701c, 0x701c, 0x701c, 0x701c}, 0, 0xffffffff, PLACE},
    [PPU_RDMA_LINE_STRIDE] = {"PPU_RDMA_LINE_STRIDE", {0x7024, 0x7024, 0x7024, 0x7024, 0x7024}, 0, 0xffffffff, PLACE},
    [PPU_RDMA_SURF_STRIDE] = {"PPU_RDMA_SURF_STRIDE", {0x7028, 0x7028, 0x7028, 0x7028, 0x7028}, 0, 0xffffffff, PLACE},
    [PPU_RDMA_DATA_FORMAT] = {"PPU_RDMA_DATA_FORMAT", {0x7030, 0x7030, 0x7030, 0x7030, 0x7030}, 0, 0x43, PLACE},
    [DDMA_WR_CFG] = {"DDMA_WR_CFG", {     0,      0, 0x8028, 0x8028,      0}, 0, 0xffffffff, PACE},
    [DDMA_WSTRB] = {"DDMA_WSTRB", {     0,      0, 0x802c, 0x802c,      0}, 0, 0xffffffff, PACE},
    // clang-format on
};

// What the other bits hold in files, but for 0.
static const struct {
    enum rknn_register reg;
    uint32_t value;
} known[] = {
    // clang-format off
    {CNA_S_POINTER, 0xe}, {CNA_S_POINTER, 0x30},
    {CNA_CONV_CON1, 0x1}, {CNA_CONV_CON1, 0x2}, {CNA_CONV_CON1, 0x3}, {CNA_CONV_CON1, 0x5}, {CNA_CONV_CON1, 0x6}, {CNA_CONV_CON1, 0x7}, {CNA_CONV_CON1, 0x120}, {CNA_CONV_CON1, 0x123}, {CNA_CONV_CON1, 0x1b0}, {CNA_CONV_CON1, 0x220}, {CNA_CONV_CON1, 0x223}, {CNA_CONV_CON1, 0x10000}, {CNA_CONV_CON1, 0x10002}, {CNA_CONV_CON1, 0x10003}, {CNA_CONV_CON1, 0x10120}, {CNA_CONV_CON1, 0x10220}, {CNA_CONV_CON1, 0x200120}, {CNA_CONV_CON1, 0x200122}, {CNA_CONV_CON1, 0x4000002}, {CNA_CONV_CON1, 0x4200122},
    {CNA_WEIGHT_ZERO, 0x8080},
    {CMAC_S_POINTER, 0xe}, {CMAC_S_POINTER, 0x30},
    {CMAC_MISC_CFG, 0x1}, {CMAC_MISC_CFG, 0x3}, {CMAC_MISC_CFG, 0x2001}, {CMAC_MISC_CFG, 0x2003},
    {CORE_S_POINTER, 0xe}, {CORE_S_POINTER, 0x30},
    {CORE_MISC_CFG, 0x1}, {CORE_MISC_CFG, 0x2}, {CORE_MISC_CFG, 0x3}, {CORE_MISC_CFG, 0xa}, {CORE_MISC_CFG, 0x15}, {CORE_MISC_CFG, 0x81}, {CORE_MISC_CFG, 0x200}, {CORE_MISC_CFG, 0x202}, {CORE_MISC_CFG, 0x280}, {CORE_MISC_CFG, 0x300}, {CORE_MISC_CFG, 0x302}, {CORE_MISC_CFG, 0x2000}, {CORE_MISC_CFG, 0x2002},
    {DPU_S_POINTER, 0xe}, {DPU_S_POINTER, 0x30},
    {DPU_FEATURE_MODE_CFG, 0x4}, {DPU_FEATURE_MODE_CFG, 0x5}, {DPU_FEATURE_MODE_CFG, 0x8}, {DPU_FEATURE_MODE_CFG, 0x9}, {DPU_FEATURE_MODE_CFG, 0xc}, {DPU_FEATURE_MODE_CFG, 0x18}, {DPU_FEATURE_MODE_CFG, 0x1c},
    {DPU_LUT_CFG, 0x68}, {DPU_LUT_CFG, 0x160}, {DPU_LUT_CFG, 0x2000006},
    {DPU_LUT_INFO, 0x50500},
    {DPU_LUT_LE_START, 0xffffc000},
    {DPU_LUT_LO_END, 0x4000},
    {DPU_LUT_START_1, 0xffffc000},
    {DPU_LUT_START_2, 0xffffc000},
    {DPU_LUT_START_3, 0xffffc000},
    {DPU_LUT_END_1, 0x4000},
    {DPU_LUT_END_2, 0x4000},
    {DPU_LUT_END_3, 0x4000},
    {RDMA_S_POINTER, 0xe}, {RDMA_S_POINTER, 0x30},
    {PPU_S_POINTER, 0xe}, {PPU_S_POINTER, 0x30},
    {PPU_RDMA_S_POINTER, 0xe}, {PPU_RDMA_S_POINTER, 0x30},
    // clang-format on
};

uint32_t rknn_register_at(const struct chip *chip, enum rknn_register reg)
{
    return registers[reg].at[chip->generation];
}

const char *rknn_register_name(enum rknn_register reg)
{
    return registers[reg].name;
}

uint32_t rknn_register_read_bits(enum rknn_register reg)
{
    return registers[reg].read;
}

uint32_t rknn_register_free_bits(enum rknn_register reg, enum rknn_effect *why)
{
    *why = registers[reg].why;
    return registers[reg].free;
}

bool rknn_register_value_known(enum rknn_register reg, uint32_t value)
{
    value &= ~(registers[reg].read | registers[reg].free);
    bool found = value == 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++)
        found = known[i].reg == reg && known[i].value == value;
    return found;
}
