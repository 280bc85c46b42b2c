// Registers of additions and products in memory, as the files of each chip have them: anything else
// is none.
#include "npu/model/rknn/regs/rknn_sum.h"

#include <math.h>

// What the units say, shifts and the Relu behind the operation left out.
struct form {
    enum chip_generation generation;
    uint32_t bs, bn, ew;
    bool product;
};

static const struct form forms[] = {
    {CHIP_GEN_RK3588, 0x20040, 0x53, 0x904200c0, false},
    {CHIP_GEN_RK3566, 0x48, 0x53, 0x900000d0, false},
    {CHIP_GEN_RK3562, 0x100012, 0x13, 0x8002c0c0, false},
    {CHIP_GEN_RK3576, 0x100012, 0x903, 0x8002c0c0, false},
    {CHIP_GEN_RV1106, 0x100012, 0x13, 0x8002c0c0, false},
    {CHIP_GEN_RK3588, 0x20050, 0x53, 0x904000c4, true},
    {CHIP_GEN_RK3588, 0x20050, 0x53, 0x804000c4, true}, // by one number for each channel
    {CHIP_GEN_RK3566, 0x58, 0x53, 0x900000c4, true},
    {CHIP_GEN_RK3566, 0x58, 0x53, 0x800000c4, true},
};

// Of BS.
static const uint32_t shift_fields[CHIP_N_GENERATIONS] = {
    [CHIP_GEN_RK3562] = 0x1f00, [CHIP_GEN_RV1106] = 0x3e00};

enum {
    RELU_BYPASS = 0x200,          // of EW, on RK3588, RK3566, RK3568
    READ_ADDEND_AND_FACTOR = 0x1a // RK3576: what BS has in memory
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
    if (sum_get(regs, RDMA_BS_CFG) != READ_ADDEND_AND_FACTOR || b.size < 50)
        return false;
    to->offset[0] = (int16_t)read_le16(b.data);
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
    if (to->product)
        to->operand[0] = (struct graph_scaling){1, 0}; // nothing else multiplies it
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
// suit one order alone.
static bool sum_find_order(const struct rknn_file *f, const struct graph_sum *s,
                           const int32_t inputs[2], bool *ret_swapped)
{
    const struct rknn_tensor *a = &f->tensors[inputs[0]], *b = &f->tensors[inputs[1]];
    bool straight = sum_suits(s, a, b);
    *ret_swapped = sum_suits(s, b, a);
    return straight != *ret_swapped && !s->product;
}

bool rknn_sum_read(const struct rknn_regs *regs, const struct rknn_file *f, const int32_t inputs[2],
                   struct graph_sum *ret)
{
    int32_t first = rknn_regs_tensor(regs, RDMA_SRC_BASE);
    int32_t second = rknn_regs_tensor(regs, RDMA_EW_BASE);
    bool said = first >= 0 && second >= 0;
    bool swapped = said && first == inputs[1] && second == inputs[0];
    bool known = swapped || !said || (first == inputs[0] && second == inputs[1]);
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
    if (!said && !sum_find_order(f, &s, inputs, &swapped))
        return false;
    *ret = s;
    for (int i = 0; i < 2 && swapped; i++) {
        ret->offset[i] = s.offset[!i];
        ret->operand[i] = s.operand[!i];
    }
    return true;
}
