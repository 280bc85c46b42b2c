// What is not in the list may well be right, and is computed by the node's own program then.
//
// Real numbers need no factors and zero points, so there is one value of each register for
// each thing that a unit does.
#include "npu/model/rknn/regs/check/rknn_real.h"

#define MAX_VALUES 4

// What a node's operator has its units do.
enum { ANY = 0, BIAS = 1, RELU = 2, TABLE = 4, ADDS = 8, ADDS_RELU = 16 };

// Values that the converter gives; those that not every node may have say of which they are.
// Registers that were never set hold 0, which is a value of its own for none of the units: a unit
// that is configured by 0 would add, multiply and clamp all at once. A scale of 0 is refused where
// the node sets it.
static const struct {
    enum rknn_register reg;
    uint32_t value;
    unsigned of;
} known[] = {
    {DPU_BS_CFG, 0x53, ANY},
    {DPU_BS_CFG, 0x20150, BIAS | ADDS}, // RK3588
    {DPU_BS_CFG, 0x158, BIAS},          // RK3566, RK3568
    {DPU_BS_OW_OP, 0, ANY},
    {DPU_BN_CFG, 0x53, ANY},
    {DPU_BN_CFG, 0x13, ANY},  // RK3562
    {DPU_BN_CFG, 0x903, ANY}, // RK3576, RV1126B
    {DPU_BN_CFG, 0x12, RELU},
    {DPU_BN_CFG, 0x20040, TABLE},
    {DPU_EW_CFG, 0x383, ANY},
    {DPU_EW_CFG, 0x10041c1, ANY}, // RK3562, RK3576, RV1126B
    {DPU_EW_CFG, 0x302, TABLE},
    {DPU_EW_CFG, 0x283, ADDS}, // what BS adds
    {DPU_EW_CFG, 0x2d0, ADDS}, // RK3566, RK3568
    {DPU_EW_CFG, 0x108202c0, ADDS},
    {DPU_EW_CFG, 0x108200c0, ADDS_RELU},
    {DPU_EW_CVT_OFFSET, 0, ANY},
    {DPU_EW_CVT_SCALE, 1, ANY},
    {DPU_OUT_CVT_OFFSET, 0, ANY},
    {DPU_OUT_CVT_SCALE, 1, ANY},
    {DPU_OUT_CVT_SCALE, 0x10001, ANY},
    {DPU_OUT_CVT_SHIFT, 0, ANY},
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

// False: what its units do is read elsewhere, or not known to be read.
static bool find_duty(const char *op, unsigned *ret)
{
    static const char *const moves[] = {"Concat", "Reshape", "Slice", "Split", "Transpose"};
    static const char *const plain[] = {"Conv", "ConvAdd", "ConvAddRelu", "ConvRelu"};
    bool conv = begins(op, "Conv") && !begins(op, "ConvTranspose"), table = conv;
    bool adds = strstr(op, "Add") != NULL, relu = strstr(op, "Relu") != NULL;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (strcmp(op, moves[i]) == 0) {
            *ret = ANY;
            return true;
        }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        table = table && strcmp(op, plain[i]) != 0;
    *ret = (conv ? BIAS : 0) | (relu && !adds ? RELU : 0) | (table ? TABLE : 0) |
           (adds ? (relu ? ADDS_RELU : ADDS) : 0);
    return conv || strcmp(op, "Add") == 0 || strcmp(op, "AddRelu") == 0;
}

static bool is_known(enum rknn_register reg, uint32_t value, unsigned duty)
{
    bool listed = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].reg != reg)
            continue;
        listed = true;
        if (known[i].value == value && (!known[i].of || known[i].of & duty))
            return true;
    }
    return !listed;
}

static bool takes_halves(const struct rknn_file *f, const struct rknn_node *n)
{
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] >= 0 && f->tensors[n->inputs[i]].type == RKNN_F16)
            return true;
    return false;
}

int rknn_real_known(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_node *n, struct error *e)
{
    enum { PRECISION = 7, INT16 = 1, FP16 = 2 };
    struct rknn_walk w;
    const struct rknn_state *s;
    unsigned duty;
    if (!takes_halves(f, n) || !find_duty(n->op, &duty))
        return 0;
    rknn_walk_begin(&w, regs, f, n);
    while ((s = rknn_walk_next(&w)) != NULL)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            uint32_t value = s->value[known[i].reg];
            uint32_t precision = s->value[DPU_DATA_FORMAT] & PRECISION;
            bool checked = precision == FP16 || (precision == INT16 && duty == ANY);
            uint32_t any;
            bool nothing = !value && known[i].reg == DPU_OUT_CVT_SCALE &&
                           rknn_regs_get(regs, known[i].reg, &any) && any == 0;
            if (checked && (value || nothing) && !is_known(known[i].reg, value, duty))
                return rknn_regs_refuse(regs, known[i].reg, value,
                                        "what that does to real numbers is not known", e);
        }
    return 0;
}
