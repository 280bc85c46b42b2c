// Which nodes meet which question: by the registers that ask it. Loads of files take no longer for
// it, since all chips' answers are the kernels' so far: the table is left at its first comparison.
#include "npu/model/rknn/regs/check/rknn_choice.h"

#include "tensor/arithmetic.h"

// A node meets it if any of these bits is set, in whichever of its tasks. Real numbers may, without
// being concerned: they are done by their programs as well then, which is slow but no mistake.
static const struct {
    enum chip_switch of;
    enum rknn_register reg;
    uint32_t bits;
} asked[] = {
    {CHIP_OUT_ZP, DPU_OUT_CVT_OFFSET, UINT32_MAX},
    {CHIP_EW_SHIFT, DPU_EW_CVT_SCALE, 0x3f0000},
    {CHIP_SUM_SHIFT, CORE_CLIP_TRUNCATE, 0x1f},
    {CHIP_LUT_IN, DPU_LUT_CFG, UINT32_MAX},
    {CHIP_LUT_LINE, DPU_LUT_CFG, UINT32_MAX},
    {CHIP_LUT_SLOPE, DPU_LUT_CFG, UINT32_MAX},
    {CHIP_BN_ORDER, DPU_LUT_CFG, UINT32_MAX},
    {CHIP_BN_ORDER, DPU_BN_ALU_CFG, UINT32_MAX},
    {CHIP_DECONV_PAD, CNA_CONV_CON3, 0x3f00},
    {CHIP_CORE_MAXIMA, DPU_DATA_CUBE_HEIGHT, 0x3f0000},
};

int rknn_choice_check(const struct rknn_regs *regs, struct error *e)
{
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        uint32_t value, taken = chip_switch_taken(regs->chip, asked[i].of);
        if (taken && rknn_regs_get(regs, asked[i].reg, &value) &&
            (value | rknn_regs_varies(regs, asked[i].reg)) & asked[i].bits)
            return error_set(e, STATUS_MODEL_INVALID,
                             "%s computes %s \"%s\", which only its register program does here",
                             regs->chip->name, chip_switch_name(asked[i].of),
                             chip_switch_choice(asked[i].of, taken));
    }
    return 0;
}
