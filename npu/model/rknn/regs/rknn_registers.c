// The NPU's registers by name.
#include "npu/model/rknn/regs/rknn_registers.h"

// Their numbers, in the order of chip.bias_rule: RK3588 (also RK3566, RK3568), RK3576 (also
// RV1126B), RK3562, RV1106 (also RV1103).
static const struct {
    const char *name;
    uint16_t at[4];
} registers[] = {
    [CORE_CLIP_TRUNCATE] = {"CORE_CLIP_TRUNCATE", {0x301c, 0x3024, 0x3024, 0x301c}},
    [DPU_DATA_FORMAT] = {"DPU_DATA_FORMAT", {0x4010, 0x4010, 0x4010, 0x4010}},
    [DPU_BS_CFG] = {"DPU_BS_CFG", {0x4040, 0x4038, 0x4038, 0x4040}},
    [DPU_BS_ALU_CFG] = {"DPU_BS_ALU_CFG", {0x4044, 0, 0x4040, 0x4044}},
    [DPU_BS_MUL_CFG] = {"DPU_BS_MUL_CFG", {0x4048, 0x4044, 0x4044, 0x4048}},
    [DPU_BS_OW_CFG] = {"DPU_BS_OW_CFG", {0x4050, 0x4050, 0x4050, 0x4050}},
    [DPU_BS_OW_OP] = {"DPU_BS_OW_OP", {0x4054, 0, 0x4054, 0x4054}},
    [DPU_BN_CFG] = {"DPU_BN_CFG", {0x4060, 0x4060, 0x4060, 0x4060}},
    [DPU_BN_ALU_CFG] = {"DPU_BN_ALU_CFG", {0x4064, 0, 0x4064, 0x4064}},
    [DPU_BN_MUL_CFG] = {"DPU_BN_MUL_CFG", {0x4068, 0, 0x4068, 0x4068}},
    [DPU_OUT_CVT_OFFSET] = {"DPU_OUT_CVT_OFFSET", {0x4080, 0x40ac, 0x40ac, 0x4080}},
    [DPU_OUT_CVT_SCALE] = {"DPU_OUT_CVT_SCALE", {0x4084, 0x40b0, 0x40b0, 0x4084}},
    [DPU_OUT_CVT_SHIFT] = {"DPU_OUT_CVT_SHIFT", {0x4088, 0x40b4, 0x40b4, 0x4088}},
    [DPU_LUT_LE_SLOPE_SCALE] = {"DPU_LUT_LE_SLOPE_SCALE", {0x4120, 0x4150, 0x4120, 0x4120}},
    [DPU_LUT_LE_SLOPE_SHIFT] = {"DPU_LUT_LE_SLOPE_SHIFT", {0x4124, 0x4160, 0x4124, 0x4124}},
    [DPU_LUT_LO_SLOPE_SCALE] = {"DPU_LUT_LO_SLOPE_SCALE", {0x4128, 0x4170, 0x4128, 0x4128}},
    [DPU_LUT_LO_SLOPE_SHIFT] = {"DPU_LUT_LO_SLOPE_SHIFT", {0x412c, 0x4184, 0x412c, 0x412c}},
    [RDMA_BS_CONFIG_BASE] = {"DPU_RDMA_BS_CONFIG_BASE", {0, 0x5024, 0, 0}},
    [RDMA_BN_CFG] = {"DPU_RDMA_NRDMA_CFG", {0x5028, 0x5028, 0x5028, 0x5028}},
    [RDMA_BN_BASE] = {"DPU_RDMA_BN_BASE_ADDR", {0x502c, 0x5030, 0x502c, 0x502c}},
};

uint32_t rknn_register_at(const struct chip *chip, enum rknn_register reg)
{
    return registers[reg].at[chip->bias_rule];
}

bool rknn_register_get(const struct rknn_regs *regs, const struct chip *chip,
                       enum rknn_register reg, uint32_t *ret)
{
    uint32_t at = rknn_register_at(chip, reg);
    return at && rknn_regs_get(regs, at, ret);
}

int rknn_register_need(const struct rknn_regs *regs, const struct chip *chip,
                       enum rknn_register reg, uint32_t *ret, struct error *e)
{
    if (rknn_register_get(regs, chip, reg, ret))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its register commands do not set %s (0x%04x), so its scale is not known",
                     registers[reg].name, rknn_register_at(chip, reg));
}

int rknn_register_refuse(const struct chip *chip, enum rknn_register reg, uint32_t value,
                         const char *what, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID, "register %s (0x%04x) holds 0x%08x: %s",
                     registers[reg].name, rknn_register_at(chip, reg), value, what);
}
