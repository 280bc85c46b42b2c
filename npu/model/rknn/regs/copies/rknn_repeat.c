// One tap for each channel, whose weight is 1, and steps of no line: so do all such tasks of the
// shared files, which are for RK3588 and in halves. A plane is a line and what is behind it.
#include "npu/model/rknn/regs/copies/rknn_repeat.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"

#define HALVES 0x48000002u // in, at work and out
#define ONE    0x3c00u     // as a half

struct repeat {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    const struct rknn_node *n;
    const struct rknn_state *s;
};

static int check(const struct repeat *t, enum rknn_register reg, bool right, struct error *e)
{
    return rknn_fit(t->regs, t->s, reg, right, e);
}

static bool is_plane_of(const struct repeat *t, const int32_t *tensors, uint32_t n, uint64_t bytes)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct rknn_tensor *x = tensors[i] < 0 ? NULL : &t->f->tensors[tensors[i]];
        if (x && x->n_dims == 4 && x->layout == RKNN_NC1HWC2 &&
            rknn_fit_plane_of(t->regs, x, bytes))
            return true;
    }
    return false;
}

// Channels behind the last one have any weight, as nobody reads what becomes of them.
static bool has_ones(const struct repeat *t, uint32_t channels)
{
    int32_t tensor = t->s->tensor[CNA_DCOMP_ADDR0];
    uint64_t at = t->s->value[CNA_DCOMP_ADDR0], size = 2 * (uint64_t)channels;
    struct bytes b = tensor < 0 ? (struct bytes){0} : t->f->tensors[tensor].data;
    if (at > b.size || size > b.size - at)
        return false;
    for (uint64_t i = at; i < at + size; i += 2)
        if (read_le16(b.data + i) != ONE)
            return false;
    return true;
}

static int check_task(const struct repeat *t, struct error *e)
{
    enum { STRIDE = 0xfffffff, PADS = 0xff, ONE_TAP = 0x101, ACROSS = 1, DEPTHWISE = 0x202 };
    const uint32_t *v = t->s->value;
    uint64_t plane = (v[CNA_LINE_STRIDE] + v[CNA_SURF_STRIDE]) & STRIDE;
    uint32_t width = rknn_bits(v[DPU_DATA_CUBE_WIDTH], 12, 0) + 1;
    uint32_t channels = rknn_bits(v[DPU_DATA_CUBE_CHANNEL], 28, 16) + 1;
    uint32_t stored = (channels + 7) / 8 * 8;
    int r = check(t, CNA_SURF_STRIDE,
                  is_plane_of(t, t->n->inputs, t->n->n_inputs, plane * rknn_fit_atom(t->regs)), e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE0, v[CNA_DATA_SIZE0] == (width << 16 | 1), e);
    r = r < 0 ? r
              : check(t, CNA_DATA_SIZE1, v[CNA_DATA_SIZE1] == ((channels - 1) << 16 | stored), e);
    r = r < 0 ? r : check(t, CNA_PAD_CON0, !(v[CNA_PAD_CON0] & PADS), e);
    r = r < 0 ? r : check(t, CNA_WEIGHT_SIZE2, v[CNA_WEIGHT_SIZE2] >> 16 == ONE_TAP, e);
    r = r < 0 ? r : check(t, CNA_CONV_CON3, v[CNA_CONV_CON3] == ACROSS, e);
    r = r < 0 ? r : check(t, CNA_DCOMP_ADDR0, has_ones(t, channels), e);
    r = r < 0 ? r : check(t, CORE_MISC_CFG, v[CORE_MISC_CFG] == DEPTHWISE, e);
    r = r < 0 ? r : check(t, DPU_DATA_FORMAT, v[DPU_DATA_FORMAT] == HALVES, e);
    r = r < 0 ? r
              : check(t, DPU_DST_SURF_STRIDE,
                      is_plane_of(t, t->n->outputs, t->n->n_outputs,
                                  rknn_fit_bytes(t->regs, t->s, DPU_DST_SURF_STRIDE)),
                      e);
    return r < 0 ? r : check(t, DPU_DATA_CUBE_NOTCH, !v[DPU_DATA_CUBE_NOTCH], e);
}

int rknn_repeat_known(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct repeat t = {.regs = regs, .f = f, .n = n};
    struct rknn_walk w;
    if (regs->chip->generation != CHIP_GEN_RK3588 || strncmp(n->op, "Add", 3) != 0)
        return 0;
    rknn_walk_begin(&w, regs);
    while ((t.s = rknn_walk_next(&w)) != NULL)
        if (!(t.s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) && check_task(&t, e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}
