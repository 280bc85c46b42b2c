// One byte for each channel goes to all pixels of the output: the image is padded by what the
// kernel repeats, so that nothing may be left of padding, of factors and of what other units do.
//
// All such tasks of the shared files have these values; zp: the output's zero point.
#include "npu/model/rknn/regs/check/rknn_spread.h"

#define ONE   0x4000u // of the output's scale, behind
#define SHIFT 14u     // so many bits

static int is(const struct rknn_regs *regs, const struct rknn_state *s, enum rknn_register reg,
              uint32_t mask, uint32_t expected, struct error *e)
{
    uint32_t any;
    if (!rknn_regs_get(regs, reg, &any) || (s->value[reg] & mask) == expected)
        return 0;
    return rknn_regs_refuse(regs, reg, s->value[reg], "that is not known where bytes are spread",
                            e);
}

static int check_task(const struct rknn_regs *regs, const struct rknn_state *s, int32_t zp,
                      struct error *e)
{
    enum { BYPASS = 1, PADS = 0xff };
    const struct {
        enum rknn_register reg;
        uint32_t mask, value;
    } rows[] = {
        {DPU_OUT_CVT_SCALE, UINT32_MAX, ONE},
        {DPU_OUT_CVT_SHIFT, UINT32_MAX, SHIFT},
        {DPU_OUT_CVT_OFFSET, UINT32_MAX, (uint32_t)zp},
        {DPU_BS_MUL_CFG, UINT32_MAX, 0},
        {DPU_BN_CFG, BYPASS, BYPASS},
        {DPU_EW_CFG, BYPASS, BYPASS},
        {CNA_PAD_CON0, PADS, 0},
        {CNA_PADDING, UINT32_MAX, 0},
        {CORE_CLIP_TRUNCATE, 0x1f, 0},
        {CNA_CONV_CON3, UINT32_MAX, 0}, // it never goes on to another pixel
        {CNA_FC_DATA_SIZE0, UINT32_MAX, s->value[CNA_DATA_SIZE0]},
        {CNA_FC_DATA_SIZE1, 0xffff, s->value[CNA_DATA_SIZE1] & 0xffff},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is(regs, s, rows[i].reg, rows[i].mask, rows[i].value, e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}

int rknn_spread_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct rknn_walk w;
    const struct rknn_state *s;
    if (strcmp(n->op, "Expand") != 0 || !n->n_outputs || n->outputs[0] < 0 ||
        f->tensors[n->outputs[0]].type != RKNN_I8)
        return 0;
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL)
        if (!(s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) &&
            check_task(regs, s, f->tensors[n->outputs[0]].zp, e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}
