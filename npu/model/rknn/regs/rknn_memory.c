// Fields of the DPU's units in tasks that work on bytes in memory. What they do is read elsewhere
// (rknn_chain.c, rknn_sum.c, rknn_norm.c), or follows from the node's operator; here what no
// analysed file uses is refused, in any of the node's tasks.
#include "npu/model/rknn/regs/rknn_memory.h"

// Bits that may be set.
struct fields {
    enum rknn_register reg;
    uint32_t of[CHIP_N_GENERATIONS];
};

static const struct fields fields[] = {
    // clang-format off
    //              RK3588      RK3576      RK3562      RV1106      RK3566
    {DPU_BS_CFG, {0x000601f3, 0x00100053, 0x00101f53, 0x00120fff, 0x000001fb}},
    {DPU_BN_CFG, {0x000601f3, 0x00000d27, 0x00020033, 0x00020033, 0x000001fb}},
    {DPU_EW_CFG, {0x906f03c7, 0x810fc1d5, 0x810fc1d5, 0x810fc1d5, 0x900003ff}},
    {DPU_OUT_CVT_SCALE, {0x17fff, 0x17fff, 0x17fff, 0x17fff, 0x17fff}}, // not negative
    {DPU_OUT_CVT_SHIFT, {0x3f, 0x3f, 0x3f, 0x3f, 0x3f}}, // halves to even
    // clang-format on
};

int rknn_memory_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    const uint32_t precisions = 0xfc000007;
    struct rknn_walk w;
    const struct rknn_state *s;
    rknn_walk_begin(&w, regs, f, n);
    while ((s = rknn_walk_next(&w)) != NULL) {
        bool bytes = s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY &&
                     !(s->value[DPU_DATA_FORMAT] & precisions);
        for (size_t i = 0; bytes && i < sizeof fields / sizeof *fields; i++) {
            uint32_t value = s->value[fields[i].reg];
            if (value & ~fields[i].of[regs->chip->generation])
                return rknn_regs_refuse(regs, fields[i].reg, value,
                                        "what that does to a tensor in memory is not known", e);
        }
    }
    return 0;
}
