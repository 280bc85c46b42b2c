// A bias of each channel, a factor of 1, no zero point of weights: so have all such tasks of files.
#include "npu/model/rknn/regs/copies/rknn_units.h"

static const char changed[] = "what it copies is changed";

// RK3576 and RV1126B have the weights' zero point, which the ones do not have, and the shifts in
// memory.
static int check_config(const struct rknn_regs *regs, const struct rknn_file *f,
                        const struct rknn_state *s, struct error *e)
{
    enum { SHIFTS_AT = 16, LEAST = 18 };
    int32_t index = s->tensor[RDMA_BS_CONFIG_BASE];
    struct bytes b = index < 0 ? (struct bytes){0} : f->tensors[index].data;
    uint32_t at = s->value[RDMA_BS_CONFIG_BASE];
    bool right = !regs->chip->bn_in_memory ||
                 (!at && b.size >= LEAST && !read_le16(b.data) && !read_le16(b.data + SHIFTS_AT));
    return right ? 0 : rknn_regs_refuse(regs, RDMA_BS_CONFIG_BASE, at, changed, e);
}

int rknn_units_copy(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_state *s, int32_t zp, struct error *e)
{
    enum { ONE = 1 << 14, SHIFT = 14 };
    const uint32_t all = UINT32_MAX, offset = (uint32_t)zp;
    const struct {
        enum rknn_register reg;
        uint32_t mask, value[CHIP_N_GENERATIONS];
    } units[] = {
        // RK3588, RK3576, RK3562, RV1106, RK3566
        {CORE_CLIP_TRUNCATE, all, {0}},
        {CNA_WEIGHT_ZERO, all, {0}},
        {DPU_DATA_FORMAT, 0xfc000007, {0}},
        {DPU_BS_CFG, all, {0x20150, 0x120080, 0x120080, 0x120180, 0x158}},
        {DPU_BS_OW_CFG, 0x080f0003, {0, 0x20001, 2, 2, 0}},
        {DPU_BS_OW_OP, 0x7fffffff, {0}},
        {DPU_BN_CFG, all, {0x53, 0x903, 0x13, 0x13, 0x53}},
        {DPU_EW_CFG, all, {0x383, 0x10041c1, 0x10041c1, 0x10041c1, 0x383}},
        {RDMA_BS_CFG, all, {2, 0x114, 2, 2, 2}},
        {DPU_OUT_CVT_SCALE, 0xffff, {ONE, ONE, ONE, ONE, ONE}},
        {DPU_OUT_CVT_SHIFT, all, {SHIFT, SHIFT, SHIFT, SHIFT, SHIFT}},
        {DPU_OUT_CVT_OFFSET, all, {offset, offset, offset, offset, offset}},
    };
    enum chip_generation g = regs->chip->generation;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        uint32_t value = s->value[units[i].reg];
        if ((value & units[i].mask) != units[i].value[g])
            return rknn_regs_refuse(regs, units[i].reg, value, changed, e);
    }
    return check_config(regs, f, s, e);
}
