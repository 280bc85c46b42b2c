// The NPU's registers by name: addresses per generation of chips. RK3588's are those of the
// technical reference manual; the others' follow from the positions of the same values in files for
// those chips.
#include "npu/model/rknn/regs/rknn_registers.h"

// Their addresses, in the order of enum chip_generation; 0: there is none, or it is not known.
static const struct {
    const char *name;
    uint16_t at[CHIP_N_GENERATIONS];
} registers[RKNN_REGISTER_COUNT] = {
    // clang-format off
    //                                                     RK3588  RK3576  RK3562  RV1106
    [CNA_CONV_CON3] = {"CNA_CONV_CON3",                   {0x1014,      0,      0, 0x1014}},
    [CNA_CVT_CON1] = {"CNA_CVT_CON1",                     {0x1050,      0,      0, 0x1050}},
    [CNA_CVT_OFFSET] = {"CNA_CVT_OFFSET0",                {     0,      0,      0, 0x101c}},
    [CNA_PAD_CON0] = {"CNA_PAD_CON0",                     {0x1068,      0,      0, 0x1068}},
    [CORE_CLIP_TRUNCATE] = {"CORE_CLIP_TRUNCATE",         {0x301c, 0x3024, 0x3024, 0x301c}},
    [DPU_DATA_FORMAT] = {"DPU_DATA_FORMAT",               {0x4010, 0x4010, 0x4010, 0x4010}},
    [DPU_BS_CFG] = {"DPU_BS_CFG",                         {0x4040, 0x4038, 0x4038, 0x4040}},
    [DPU_BS_ALU_CFG] = {"DPU_BS_ALU_CFG",                 {0x4044,      0, 0x4040, 0x4044}},
    [DPU_BS_MUL_CFG] = {"DPU_BS_MUL_CFG",                 {0x4048, 0x4044, 0x4044, 0x4048}},
    [DPU_BS_OW_CFG] = {"DPU_BS_OW_CFG",                   {0x4050, 0x4050, 0x4050, 0x4050}},
    [DPU_BS_OW_OP] = {"DPU_BS_OW_OP",                     {0x4054,      0, 0x4054, 0x4054}},
    [DPU_BN_CFG] = {"DPU_BN_CFG",                         {0x4060, 0x4060, 0x4060, 0x4060}},
    [DPU_BN_ALU_CFG] = {"DPU_BN_ALU_CFG",                 {0x4064,      0, 0x4064, 0x4064}},
    [DPU_BN_MUL_CFG] = {"DPU_BN_MUL_CFG",                 {0x4068,      0, 0x4068, 0x4068}},
    [DPU_BN_RELUX_CMP] = {"DPU_BN_RELUX_CMP_VALUE",       {0x406c,      0,      0, 0x406c}},
    [DPU_BS_LOW_0] = {"DPU_BS_LOW_0",                     {     0, 0x4048, 0x4048,      0}},
    [DPU_BS_HIGH_0] = {"DPU_BS_HIGH_0",                   {     0, 0x404c, 0x404c,      0}},
    [DPU_BS_LOW_1] = {"DPU_BS_LOW_1",                     {     0, 0x4058, 0x4058,      0}},
    [DPU_BS_HIGH_1] = {"DPU_BS_HIGH_1",                   {     0, 0x405c, 0x405c,      0}},
    [DPU_BN_LOW_0] = {"DPU_BN_LOW_0",                     {     0, 0x406c, 0x406c,      0}},
    [DPU_BN_HIGH_0] = {"DPU_BN_HIGH_0",                   {     0, 0x4070, 0x4070,      0}},
    [DPU_BN_LOW_1] = {"DPU_BN_LOW_1",                     {     0, 0x4074, 0x4074,      0}},
    [DPU_BN_HIGH_1] = {"DPU_BN_HIGH_1",                   {     0, 0x4078, 0x4078,      0}},
    [DPU_EW_LOW_0] = {"DPU_EW_LOW_0",                     {     0, 0x4088, 0x4088,      0}},
    [DPU_EW_HIGH_0] = {"DPU_EW_HIGH_0",                   {     0, 0x408c, 0x408c,      0}},
    [DPU_EW_LOW_1] = {"DPU_EW_LOW_1",                     {     0, 0x40a4, 0x40a4,      0}},
    [DPU_EW_HIGH_1] = {"DPU_EW_HIGH_1",                   {     0, 0x40a8, 0x40a8,      0}},
    [DPU_EW_CFG] = {"DPU_EW_CFG",                         {0x4070, 0x407c, 0x407c, 0x4070}},
    [DPU_EW_CVT_OFFSET] = {"DPU_EW_CVT_OFFSET_VALUE",     {0x4074, 0x4080, 0x4080, 0x4074}},
    [DPU_EW_CVT_SCALE] = {"DPU_EW_CVT_SCALE_VALUE",       {0x4078, 0x4084, 0x4084, 0x4078}},
    [DPU_EW_RELUX_CMP] = {"DPU_EW_RELUX_CMP_VALUE",       {0x407c,      0,      0,      0}},
    [DPU_OUT_CVT_OFFSET] = {"DPU_OUT_CVT_OFFSET",         {0x4080, 0x40ac, 0x40ac, 0x4080}},
    [DPU_OUT_CVT_SCALE] = {"DPU_OUT_CVT_SCALE",           {0x4084, 0x40b0, 0x40b0, 0x4084}},
    [DPU_OUT_CVT_SHIFT] = {"DPU_OUT_CVT_SHIFT",           {0x4088, 0x40b4, 0x40b4, 0x4088}},
    [DPU_LUT_ACCESS_CFG] = {"DPU_LUT_ACCESS_CFG",         {0x4100, 0x4100, 0x4100, 0x4100}},
    [DPU_LUT_ACCESS_DATA] = {"DPU_LUT_ACCESS_DATA",       {0x4104, 0x4104, 0x4104, 0x4104}},
    [DPU_LUT_INFO] = {"DPU_LUT_INFO",                     {0x410c, 0x410c, 0x410c, 0x410c}},
    [DPU_LUT_LE_START] = {"DPU_LUT_LE_START",             {0x4110, 0x4110, 0x4110, 0x4110}},
    [DPU_LUT_LE_END] = {"DPU_LUT_LE_END",                 {0x4114,      0, 0x4114, 0x4114}},
    [DPU_LUT_LO_START] = {"DPU_LUT_LO_START",             {0x4118,      0, 0x4118, 0x4118}},
    [DPU_LUT_LO_END] = {"DPU_LUT_LO_END",                 {0x411c, 0x4140, 0x411c, 0x411c}},
    [DPU_LUT_LE_SLOPE_SCALE] = {"DPU_LUT_LE_SLOPE_SCALE", {0x4120, 0x4150, 0x4120, 0x4120}},
    [DPU_LUT_LE_SLOPE_SHIFT] = {"DPU_LUT_LE_SLOPE_SHIFT", {0x4124, 0x4160, 0x4124, 0x4124}},
    [DPU_LUT_LO_SLOPE_SCALE] = {"DPU_LUT_LO_SLOPE_SCALE", {0x4128, 0x4170, 0x4128, 0x4128}},
    [DPU_LUT_LO_SLOPE_SHIFT] = {"DPU_LUT_LO_SLOPE_SHIFT", {0x412c, 0x4184, 0x412c, 0x412c}},
    [RDMA_SRC_BASE] = {"DPU_RDMA_SRC_BASE_ADDR",          {0x5018, 0x5018, 0x5018, 0x5018}},
    [RDMA_EW_BASE] = {"DPU_RDMA_EW_BASE_ADDR",            {0x5038, 0x5038, 0x5038, 0x5038}},
    [RDMA_BS_CFG] = {"DPU_RDMA_BRDMA_CFG",                {0x501c, 0x501c, 0x501c, 0x501c}},
    [RDMA_BS_CONFIG_BASE] = {"DPU_RDMA_BS_CONFIG_BASE",   {     0, 0x5024,      0,      0}},
    [RDMA_BN_CFG] = {"DPU_RDMA_NRDMA_CFG",                {0x5028, 0x5028, 0x5028, 0x5028}},
    [RDMA_BN_BASE] = {"DPU_RDMA_BN_BASE_ADDR",            {0x502c, 0x5030, 0x502c, 0x502c}},
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
