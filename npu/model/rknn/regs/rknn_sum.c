// Registers of additions and products in memory, as the files of each chip have them: anything else
// is none.
#include "npu/model/rknn/regs/rknn_sum.h"

#include <math.h>
#include <stdlib.h>

// What the units say, shifts and the Relu behind the operation left out.
struct form {
    enum chip_generation generation;
    uint32_t bs, bn, ew;
    bool product;
};

static const struct form forms[] = {
    {CHIP_GEN_RK3588, 0x20040, 0x53, 0x904200c0, false},
    {CHIP_GEN_RK3566, 0x48, 0x53, 0x900000d0, false},
    {CHIP_GEN_RK3566, 0x48, 0x53, 0x800000d0, false}, // one number for each channel
    {CHIP_GEN_RK3562, 0x100012, 0x13, 0x8002c0c0, false},
    {CHIP_GEN_RK3576, 0x100012, 0x903, 0x8002c0c0, false},
    {CHIP_GEN_RV1106, 0x100012, 0x13, 0x8002c0c0, false},
    {CHIP_GEN_RK3588, 0x20050, 0x53, 0x904000c4, true},
    {CHIP_GEN_RK3588, 0x20050, 0x53, 0x804000c4, true}, // by one number for each channel
    {CHIP_GEN_RK3566, 0x58, 0x53, 0x900000c4, true},
    {CHIP_GEN_RK3566, 0x58, 0x53, 0x800000c4, true},
    {CHIP_GEN_RK3576, 0x100012, 0x903, 0x810f4094,
     true}, // by an image, or a number for each channel
    {CHIP_GEN_RK3562, 0x100012, 0x13, 0x81004094, true},
};

// Of BS.
static const uint32_t shift_fields[CHIP_N_GENERATIONS] = {
    [CHIP_GEN_RK3562] = 0x1f00, [CHIP_GEN_RV1106] = 0x3e00};

enum {
    MAX_OFFSET = 256,      // of what is added to a byte: its zero point, negated
    RELU_BYPASS = 0x200,   // of EW, on RK3588, RK3566, RK3568
    IMAGE = 1 << 28,       // as there: the second operand is no number for each channel
    READS_IMAGE = 1 << 30, // … of its reader, on all chips
    // RK3576: what BS has in memory.
    READ_ADDEND = 2,
    READ_ADDEND_AND_FACTOR = 0x1a
};

static uint32_t sum_get(const struct rknn_regs *regs, enum rknn_register reg)
{
    uint32_t value = 0;
    rknn_regs_get(regs, reg, &value);
    return value;
}

static bool sum_form_is(const struct rknn_regs *regs, const struct form *f)
{
    uint32_t bs = sum_get(regs, DPU_BS_CFG), ew = sum_get(regs, DPU_EW_CFG);
    bs &= ~shift_fields[f->generation];
    ew &= regs->chip->bn_relu_field ? ~(uint32_t)RELU_BYPASS : UINT32_MAX;
    return regs->chip->generation == f->generation && bs == f->bs && ew == f->ew &&
           sum_get(regs, DPU_BN_CFG) == f->bn;
}

// RK3576, RV1126B: what is added, the factor and the shifts are in a tensor, at bytes 0, 32 and 48.
static bool sum_first_from_memory(const struct rknn_regs *regs, const struct rknn_file *f,
                                  struct graph_sum *to)
{
    int32_t index = rknn_regs_tensor(regs, RDMA_BS_CONFIG_BASE);
    struct bytes b = index < 0 ? (struct bytes){0} : f->tensors[index].data;
    uint32_t reads = to->product ? READ_ADDEND : READ_ADDEND_AND_FACTOR;
    if (sum_get(regs, RDMA_BS_CFG) != reads || b.size < 50)
        return false;
    to->offset[0] = (int16_t)read_le16(b.data);
    if (to->product) {
        to->operand[0] = (struct graph_scaling){1, 0}; // nothing else multiplies it
        return true;
    }
    to->operand[0] = (struct graph_scaling){(int16_t)read_le16(b.data + 32), b.data[48] & 0x3f};
    return b.data[48] == b.data[49];
}

// Operand 0 is the one that goes through BS. Shifts of negative values must be those of others.
static bool sum_first(const struct rknn_regs *regs, const struct rknn_file *f, struct graph_sum *to)
{
    uint32_t factor = sum_get(regs, DPU_BS_MUL_CFG), shift, negative;
    if (regs->chip->bn_in_memory)
        return sum_first_from_memory(regs, f, to);
    bool rv1106 = regs->chip->generation == CHIP_GEN_RV1106;
    if (rv1106) {
        shift = sum_get(regs, DPU_BS_CFG) >> 9 & 0x1f;
        negative = sum_get(regs, DPU_BS_OW_OP) >> 24 & 0x1f;
    } else if (regs->chip->generation == CHIP_GEN_RK3562) {
        shift = sum_get(regs, DPU_BS_CFG) >> 8 & 0x1f;
        negative = sum_get(regs, DPU_BS_OW_OP) >> 16 & 0x3f;
    } else {
        shift = factor >> 8 & 0x3f;
        negative = sum_get(regs, DPU_DATA_FORMAT) >> 4 & 0x3f;
    }
    to->offset[0] = (int32_t)sum_get(regs, rv1106 ? DPU_SOURCE_OFFSET : DPU_BS_ALU_CFG);
    to->operand[0] = (struct graph_scaling){(int16_t)(factor >> 16), shift};
    if (to->product) {
        // Nothing else multiplies it: older chips' unit is off, of the newer ones 0 says so.
        to->operand[0] = (struct graph_scaling){1, 0};
        if (!regs->chip->bn_relu_field && (factor || shift))
            return false;
    }
    return shift == negative && (factor & 3) == 0;
}

static void sum_second(const struct rknn_regs *regs, struct graph_sum *to)
{
    uint32_t scale = sum_get(regs, DPU_EW_CVT_SCALE), offset = sum_get(regs, DPU_EW_CVT_OFFSET);
    bool wide = regs->chip->bn_relu_field;
    to->offset[1] = wide ? (int32_t)offset : (int16_t)offset;
    to->operand[1] = (struct graph_scaling){(int16_t)scale, scale >> 16 & 0x3f};
}

static bool sum_out(const struct rknn_regs *regs, struct graph_sum *to)
{
    uint32_t scale, shift, offset;
    if (!rknn_regs_get(regs, DPU_OUT_CVT_SCALE, &scale) ||
        !rknn_regs_get(regs, DPU_OUT_CVT_SHIFT, &shift) ||
        !rknn_regs_get(regs, DPU_OUT_CVT_OFFSET, &offset) || shift >> 6)
        return false;
    to->out = (struct graph_scaling){(int16_t)scale, shift};
    to->zp = (int32_t)offset;
    return true;
}

// Whether all tasks do the same.
static bool sum_is_one(const struct rknn_regs *regs)
{
    static const enum rknn_register read[] = {
        DPU_FEATURE_MODE_CFG, DPU_DATA_FORMAT,   DPU_BS_CFG,        DPU_BS_ALU_CFG,
        DPU_BS_MUL_CFG,       DPU_BS_OW_OP,      DPU_BN_CFG,        DPU_EW_CFG,
        DPU_EW_CVT_OFFSET,    DPU_EW_CVT_SCALE,  DPU_OUT_CVT_SCALE, DPU_OUT_CVT_SHIFT,
        DPU_OUT_CVT_OFFSET,   DPU_SOURCE_OFFSET, RDMA_BS_CFG};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (rknn_regs_varies(regs, read[i]) & (read[i] == DPU_FEATURE_MODE_CFG ? 0x1f : UINT32_MAX))
            return false;
    if (rknn_regs_varies(regs, RDMA_EW_CFG) & READS_IMAGE)
        return false;
    for (int reg = DPU_BS_LOW_0; reg <= DPU_BOUND_11; reg++)
        if (reg != DPU_SOURCE_OFFSET && rknn_regs_varies(regs, (enum rknn_register)reg))
            return false;
    return true;
}

// Of the pairs of bounds behind each stage, those that clamp from below. Their places are not in
// one order on all chips, so they are named.
static bool is_lowest(enum rknn_register reg)
{
    switch (reg) {
    case DPU_BS_LOW_0:
    case DPU_BS_LOW_1:
    case DPU_BN_LOW_0:
    case DPU_BN_LOW_1:
    case DPU_EW_LOW_0:
    case DPU_EW_LOW_1:
    case DPU_BOUND_3:
    case DPU_BOUND_4:
    case DPU_BOUND_5:
    case DPU_BOUND_6:
    case DPU_BOUND_8:
    case DPU_BOUND_10:
        return true;
    default:
        return false;
    }
}

// Bounds of the newer chips: none, but for EW's lower one of RK3562 and RK3576, which is a Relu.
// That of RV1103 and RV1106 is in no file.
static bool sum_is_bounded(const struct rknn_regs *regs, bool relu)
{
    if (regs->chip->bn_relu_field)
        return relu == !(sum_get(regs, DPU_EW_CFG) & RELU_BYPASS);
    if (relu && regs->chip->generation == CHIP_GEN_RV1106)
        return false;
    for (int reg = DPU_BS_LOW_0; reg <= DPU_BOUND_11; reg++) {
        uint32_t value, low = 0x80000000;
        if (reg == DPU_SOURCE_OFFSET || !rknn_regs_get(regs, (enum rknn_register)reg, &value))
            continue;
        if (relu && (reg == DPU_EW_LOW_0 || reg == DPU_EW_LOW_1))
            low = 0;
        if (value != (is_lowest((enum rknn_register)reg) ? low : INT32_MAX))
            return false;
    }
    return true;
}

// The second operand is an image, or a number for each channel: its reader says which, and on older
// chips the unit, too. Where the output is one pixel either will do.
static bool sum_second_is(const struct rknn_regs *regs, const struct rknn_tensor *first,
                          const struct rknn_tensor *second)
{
    bool shaped = first->n_dims == 4 && second->n_dims == 4;
    bool each = shaped && second->dims[2] == 1 && second->dims[3] == 1;
    if (!shaped || (each && first->dims[2] == 1 && first->dims[3] == 1))
        return true;
    if (!(sum_get(regs, RDMA_EW_CFG) & READS_IMAGE) != each)
        return false;
    return !regs->chip->bn_relu_field || !(sum_get(regs, DPU_EW_CFG) & IMAGE) == each;
}

// Whether the operands are what these two tensors are brought to the same units by.
static bool sum_suits(const struct graph_sum *s, const struct rknn_tensor *a,
                      const struct rknn_tensor *b)
{
    double first = ldexp(s->operand[0].factor, -(int)s->operand[0].shift) * (double)b->scale;
    double second = ldexp(s->operand[1].factor, -(int)s->operand[1].shift) * (double)a->scale;
    return s->offset[0] == -a->zp && s->offset[1] == -b->zp &&
           fabs(first - second) < 1e-3 * fabs(first);
}

// Container 0x1004 does not say which tensors tasks work on: then offsets and factors do, if they
// suit one order alone, or are the same for both operands.
static bool sum_find_order(const struct rknn_file *f, const struct graph_sum *s,
                           const int32_t inputs[2], bool *ret_swapped)
{
    const struct rknn_tensor *a = &f->tensors[inputs[0]], *b = &f->tensors[inputs[1]];
    bool straight = sum_suits(s, a, b);
    bool either = s->offset[0] == s->offset[1] && s->operand[0].factor == s->operand[1].factor &&
                  s->operand[0].shift == s->operand[1].shift;
    *ret_swapped = sum_suits(s, b, a);
    return !s->product && (straight != *ret_swapped || (straight && either));
}

bool rknn_sum_read(const struct rknn_regs *regs, const struct rknn_file *f, const int32_t inputs[2],
                   bool relu, struct graph_sum *ret)
{
    int32_t first = rknn_regs_tensor(regs, RDMA_SRC_BASE);
    int32_t second = rknn_regs_tensor(regs, RDMA_EW_BASE);
    bool said = first >= 0 && second >= 0;
    bool swapped = said && first == inputs[1] && second == inputs[0];
    bool known = swapped || !said || (first == inputs[0] && second == inputs[1]);
    known = known && sum_is_one(regs) && sum_is_bounded(regs, relu);
    struct graph_sum s;
    const struct form *form = forms, *end = forms + sizeof forms / sizeof *forms;
    while (known && form < end && !sum_form_is(regs, form))
        form++;
    if (!known || form == end)
        return false;
    s.product = form->product;
    if (!sum_first(regs, f, &s) || !sum_out(regs, &s))
        return false;
    sum_second(regs, &s);
    if (abs(s.offset[0]) > MAX_OFFSET || abs(s.offset[1]) > MAX_OFFSET)
        return false;
    if (!said && !sum_find_order(f, &s, inputs, &swapped))
        return false;
    if (!sum_second_is(regs, &f->tensors[inputs[swapped]], &f->tensors[inputs[!swapped]]))
        return false;
    *ret = s;
    for (int i = 0; i < 2 && swapped; i++) {
        ret->offset[i] = s.offset[!i];
        ret->operand[i] = s.operand[!i];
    }
    return true;
}
