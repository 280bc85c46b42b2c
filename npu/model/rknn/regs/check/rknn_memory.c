// Fields of the DPU's units in tasks that work on bytes in memory. What they do is read elsewhere
// (rknn_chain.c, rknn_sum.c, rknn_norm.c), or follows from the node's operator; here what no
// analysed file uses is refused, in any of the node's tasks.
#include "npu/model/rknn/regs/check/rknn_memory.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"

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

// Of RV1103 and RV1106: no unit cuts off, but BS below 0 in a Relu. The pairs of BN are read with
// the rest of the chain (rknn_chain.c), and say the same.
static int check_bounds(const struct rknn_regs *regs, const struct rknn_state *s, bool relu,
                        struct error *e)
{
    const uint32_t none = 0x80000000, lowest = relu ? 0 : none;
    const struct {
        enum rknn_register reg;
        uint32_t value;
    } bounds[] = {
        {DPU_BOUND_0, INT32_MAX},
        {DPU_BOUND_1, s->value[DPU_BOUND_9]},
        {DPU_BOUND_2, INT32_MAX},
        {DPU_BOUND_3, lowest},
        {DPU_BOUND_4, s->value[DPU_BOUND_8]},
        {DPU_BOUND_5, none},
        {DPU_BOUND_6, lowest},
        {DPU_BOUND_7, INT32_MAX},
        {DPU_BOUND_10, none},
        {DPU_BOUND_11, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        uint32_t any;
        if (rknn_regs_get(regs, bounds[i].reg, &any) && s->value[bounds[i].reg] != bounds[i].value)
            return rknn_regs_refuse(regs, bounds[i].reg, s->value[bounds[i].reg],
                                    "where that cuts off a tensor in memory is not known", e);
    }
    return 0;
}

// Operators that cut nothing off.
static bool is_unbounded(const struct rknn_node *n)
{
    static const char *const ops[] = {"Concat", "Expand", "Pad",   "Reshape",
                                      "Resize", "Slice",  "Split", "Transpose"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(n->op, ops[i]) == 0)
            return true;
    return false;
}

// Of RK3576, RV1126B and RK3562, which have two pairs of bounds at each unit.
static int check_unbounded(const struct rknn_regs *regs, const struct rknn_state *s,
                           struct error *e)
{
    uint32_t any;
    for (int i = DPU_BS_LOW_0; i <= DPU_EW_HIGH_1; i++) {
        enum rknn_register reg = (enum rknn_register)i;
        uint32_t none = (i - DPU_BS_LOW_0) % 2 ? INT32_MAX : 0x80000000u;
        if (rknn_regs_get(regs, reg, &any) && s->value[reg] != none)
            return rknn_regs_refuse(regs, reg, s->value[reg], "it cuts nothing off by its name", e);
    }
    return 0;
}

// Of the same chips: tasks of a Resize that interpolate write as many bytes from one line to the
// next as a line's pixels have.
static int check_lines(const struct rknn_regs *regs, const struct rknn_state *s, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    enum chip_generation g = regs->chip->generation;
    uint32_t any, written = s->value[DPU_WRITE_SIZE_0] >> 16;
    uint64_t pixels = rknn_bits(s->value[DPU_DATA_CUBE_WIDTH], 12, 0) + 1;
    uint64_t line = pixels * (rknn_bits(s->value[DPU_DATA_CUBE_CHANNEL], 12, 0) + 1) - 1;
    if ((g != CHIP_GEN_RK3576 && g != CHIP_GEN_RK3562) || written == (line & 0xffff) ||
        s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY ||
        !rknn_regs_get(regs, DPU_WRITE_SIZE_0, &any))
        return 0;
    return rknn_regs_refuse(regs, DPU_WRITE_SIZE_0, s->value[DPU_WRITE_SIZE_0],
                            "lines of another size", e);
}

// The DPU reads and writes whole atoms.
static int check_addresses(const struct rknn_regs *regs, const struct rknn_state *s,
                           struct error *e)
{
    static const enum rknn_register addresses[] = {RDMA_SRC_BASE, RDMA_EW_BASE, DPU_DST_BASE};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        if (s->value[addresses[i]] % rknn_fit_atom(regs))
            return rknn_regs_refuse(regs, addresses[i], s->value[addresses[i]],
                                    "an address between two atoms", e);
    return 0;
}

int rknn_memory_known(const struct rknn_regs *regs, const struct rknn_node *n, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    const uint32_t precisions = 0xfc000007;
    struct rknn_walk w;
    const struct rknn_state *s;
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL) {
        bool memory = s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY;
        bool bytes = memory && !(s->value[DPU_DATA_FORMAT] & precisions);
        if (check_addresses(regs, s, e) < 0)
            return STATUS_MODEL_INVALID;
        for (size_t i = 0; bytes && i < sizeof fields / sizeof *fields; i++) {
            uint32_t value = s->value[fields[i].reg];
            if (value & ~fields[i].of[regs->chip->generation])
                return rknn_regs_refuse(regs, fields[i].reg, value,
                                        "what that does to a tensor in memory is not known", e);
        }
        if (is_unbounded(n) && check_unbounded(regs, s, e) < 0)
            return STATUS_MODEL_INVALID;
        if (strcmp(n->op, "Resize") == 0 && check_lines(regs, s, e) < 0)
            return STATUS_MODEL_INVALID;
        if (memory && regs->chip->generation == CHIP_GEN_RV1106 &&
            check_bounds(regs, s, strcmp(n->op, "Relu") == 0, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    return 0;
}
