// One kernel of one tap for each channel, whose weight is 1 for the byte and 0 for what fills up
// its block; the bias takes its zero point off, and the output's adds it again:
//
//     x ---> 1 * x ---> BS: + bias ---> OUT_CVT: * 2^14, >> 14, + zero point ---> x, C times
//
// The values are those of all files that have such a task, which are for RK3566 and RK3568.
#include "npu/model/rknn/regs/copies/rknn_scalar.h"

enum {
    BLOCK = 8,     // bytes of a channel's kernel
    WHOLE = 16,    // channels are filled up to
    BIAS_BYTES = 4 // of each channel
};

static bool has_ones(struct bytes weights, uint32_t channels)
{
    if (weights.size != (uint64_t)channels * BLOCK)
        return false;
    for (uint32_t i = 0; i < weights.size; i++)
        if (weights.data[i] != (i % BLOCK == 0))
            return false;
    return true;
}

static bool has_biases(struct bytes biases, uint32_t channels, int32_t each)
{
    if (biases.size != (uint64_t)channels * BIAS_BYTES)
        return false;
    for (uint32_t c = 0; c < channels; c++)
        if ((int32_t)read_le32(biases.data + (size_t)BIAS_BYTES * c) != each)
            return false;
    return true;
}

// Whether a register takes the address of a constant from its beginning on.
static struct bytes constant_at(const struct rknn_file *f, const struct rknn_state *s,
                                enum rknn_register reg)
{
    int32_t t = s->tensor[reg];
    return t >= 0 && !s->value[reg] && !f->tensors[t].compressed ? f->tensors[t].data
                                                                 : (struct bytes){0};
}

static bool holds(const struct rknn_state *s, uint32_t channels, int32_t zp)
{
    enum { ALL = -1 };
    const uint32_t filled = (channels + WHOLE - 1) / WHOLE * WHOLE;
    const struct {
        enum rknn_register reg;
        int32_t mask;
        uint32_t value;
    } rows[] = {
        {CNA_CONV_CON1, 0x042107ff, 0},
        {CNA_CONV_CON3, 0x03ff3f3f, 9}, // steps of one
        {CNA_DATA_SIZE0, ALL, 0x10001},
        {CNA_DATA_SIZE1, ALL, BLOCK},
        {CNA_DATA_SIZE2, ALL, 1},
        {CNA_DATA_SIZE3, ALL, 1},
        {CNA_WEIGHT_SIZE0, ALL, channels * BLOCK},
        {CNA_WEIGHT_SIZE1, ALL, BLOCK},
        {CNA_WEIGHT_SIZE2, ALL, 0x1010000 | channels},
        {CNA_PAD_CON0, 0xff, 0},
        {CNA_WEIGHT_ZERO, 0xffff, 0},
        {CNA_FEATURE_BASE, ALL, 0},
        {CNA_FC_DATA_SIZE0, ALL, 0x10001},
        {CNA_FC_DATA_SIZE1, 0xffff, BLOCK},
        {CORE_MISC_CFG, 0x270f, 0},
        {CORE_CLIP_TRUNCATE, ALL, 0},
        {CORE_DATAOUT_SIZE_0, ALL, 0},
        {CORE_DATAOUT_SIZE_1, ALL, filled - 1},
        {DPU_FEATURE_MODE_CFG, 0x1f, 8},
        {DPU_DATA_FORMAT, ALL, 0},
        {DPU_DST_BASE, ALL, 0},
        {DPU_DST_SURF_STRIDE, ALL, BLOCK},
        {DPU_DATA_CUBE_WIDTH, ALL, 0},
        {DPU_DATA_CUBE_HEIGHT, ALL, 0},
        {DPU_DATA_CUBE_NOTCH, ALL, 0},
        {DPU_DATA_CUBE_CHANNEL, ALL, (channels - 1) << 16 | (filled - 1)},
        {DPU_BS_CFG, ALL, 0x158}, // adds what is in memory
        {DPU_BS_MUL_CFG, ALL, 0},
        {DPU_BS_OW_CFG, 0x080f0003, 0},
        {DPU_BS_OW_OP, ALL, 0},
        {DPU_BN_CFG, ALL, 0x53},  // goes round it
        {DPU_EW_CFG, ALL, 0x383}, // as here
        {DPU_OUT_CVT_OFFSET, ALL, (uint32_t)zp},
        {DPU_OUT_CVT_SCALE, ALL, 1u << 14},
        {DPU_OUT_CVT_SHIFT, ALL, 14},
        {RDMA_BS_CFG, ALL, 2},
        {RDMA_WIDTH, ALL, 0},
        {RDMA_HEIGHT, ALL, 0},
        {RDMA_CHANNEL, ALL, filled - 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((s->value[rows[i].reg] & (uint32_t)rows[i].mask) != rows[i].value)
            return false;
    return true;
}

bool rknn_scalar_copied(const struct rknn_regs *regs, const struct rknn_file *f, int32_t from,
                        int32_t to)
{
    struct rknn_walk w;
    const struct rknn_tensor *x = &f->tensors[from], *y = &f->tensors[to];
    bool shaped = x->type == RKNN_I8 && y->type == RKNN_I8 && x->zp == y->zp && y->n_dims == 4 &&
                  y->dims[0] == 1 && y->dims[2] == 1 && y->dims[3] == 1;
    if (!shaped || regs->chip->generation != CHIP_GEN_RK3566)
        return false;
    rknn_walk_begin(&w, regs);
    const struct rknn_state *s = rknn_walk_next(&w);
    return s && s->tensor[CNA_FEATURE_BASE] == from && s->tensor[DPU_DST_BASE] == to &&
           holds(s, y->dims[1], x->zp) &&
           has_ones(constant_at(f, s, CNA_DCOMP_ADDR0), y->dims[1]) &&
           has_biases(constant_at(f, s, RDMA_BS_BASE), y->dims[1], -x->zp);
}
