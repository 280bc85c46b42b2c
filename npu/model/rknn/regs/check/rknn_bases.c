// A task's first byte of the output says which channels and lines it makes:
//
//     offset = channel / 16 * plane + line * width * 16
//
// (in RV1103 and RV1106, whose files these are, an atom has 16 bytes on all its ways). Each task
// may make some of the lines, or some of the channels, or both.
//
// From these follow where the image, the weights and the biases begin that it takes.
#include "npu/model/rknn/regs/check/rknn_bases.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"

#define ATOM 16

struct task {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    const struct rknn_node *n;
    const struct rknn_state *s;
    const struct rknn_agree_conv *c;
    uint32_t channel, line; // the first ones that it makes
};

static int check(const struct task *t, enum rknn_register reg, bool right, struct error *e)
{
    return rknn_fit(t->regs, t->s, reg, right, e);
}

// Bytes of a plane of atoms, as long as the file's block of it says.
static uint64_t plane_bytes(const struct rknn_tensor *t, const struct graph_tensor *g)
{
    uint64_t pixels = (uint64_t)g->dims[2] * g->dims[3];
    bool padded = t->kind != RKNN_KIND_INPUT && pixels > 1;
    return (padded ? (pixels + 3) / 4 * 4 : pixels) * ATOM;
}

// At which byte of a constant an address is; false: not in it.
static bool in_constant(const struct task *t, int32_t tensor, enum rknn_register reg, uint64_t *ret)
{
    const struct rknn_container *c = &t->f->container;
    const struct rknn_tensor *x = &t->f->tensors[tensor];
    *ret = (uint64_t)t->s->value[reg] - c->registers.size - c->scratch.size - x->offset;
    return *ret < x->data.size;
}

static int check_output(struct task *t, struct error *e)
{
    uint64_t at = 0, plane = plane_bytes(&t->f->tensors[t->n->outputs[0]], t->c->y);
    uint64_t line = (uint64_t)t->c->y->dims[3] * ATOM;
    bool inside = rknn_file_offset(t->f, t->n->outputs[0], t->s->value[DPU_DST_BASE], &at);
    t->channel = (uint32_t)(at / plane * ATOM);
    t->line = (uint32_t)(at % plane / line);
    bool whole = at % plane % line == 0 && t->line < t->c->y->dims[2];
    return check(t, DPU_DST_BASE, inside && whole && t->channel < t->c->y->dims[1], e);
}

// Lines above the image are padded.
static int check_image(const struct task *t, bool packed, struct error *e)
{
    const struct graph_window *w = t->c->window;
    const struct graph_tensor *x = t->c->x;
    const struct rknn_tensor *from = &t->f->tensors[t->n->inputs[0]];
    uint64_t at = 0, taken = (uint64_t)t->line * w->stride[0];
    uint64_t first = taken > w->pad[0] ? taken - w->pad[0] : 0;
    uint64_t line = (uint64_t)x->dims[3] * (packed ? x->dims[1] : ATOM);
    uint64_t right = first * line;
    if (packed && from->stride_align)
        right = first * x->dims[1] * align_up(x->dims[3], from->stride_align);
    if (t->c->depthwise)
        right += t->channel / ATOM * plane_bytes(from, x);
    bool inside = rknn_file_offset(t->f, t->n->inputs[0], t->s->value[CNA_FEATURE_BASE], &at);
    uint32_t lines = t->s->value[CNA_DATA_SIZE0] & 0xffff;
    int r = check(t, CNA_FEATURE_BASE, inside && at == right, e);
    return r < 0 ? r : check(t, CNA_DATA_SIZE0, first + lines <= x->dims[2], e);
}

static int check_constants(const struct task *t, struct error *e)
{
    const uint32_t *kernel = t->c->window->kernel;
    uint64_t at = 0, each = t->s->value[CNA_WEIGHT_SIZE1] & 0x7ffff;
    uint64_t right = each * t->channel;
    if (t->c->depthwise)
        right = (uint64_t)kernel[0] * kernel[1] * t->channel;
    bool inside = in_constant(t, t->n->inputs[1], CNA_DCOMP_ADDR0, &at);
    bool twice = t->c->depthwise && at == 2 * right; // zero points beside weights
    return check(t, CNA_DCOMP_ADDR0, inside && (at == right || twice), e);
}

// Biases come in groups of channels, each with their zero points and multipliers where these are
// read, too.
static int check_biases(const struct task *t, struct error *e)
{
    enum { BIAS = 2, ZERO_POINT = 4, MULTIPLIER = 8 };
    uint32_t reads = t->s->value[RDMA_BS_CFG];
    uint64_t at = 0, each = (reads & BIAS ? 4u : 0) + (reads & ZERO_POINT ? 2u : 0) +
                            (reads & MULTIPLIER ? 2u : 0);
    if (!each || t->n->n_inputs < 3 || t->n->inputs[2] < 0)
        return 0;
    bool inside = in_constant(t, t->n->inputs[2], RDMA_BS_BASE, &at);
    return check(t, RDMA_BS_BASE, inside && at == each * t->channel, e);
}

// What is added is read from where the output is written.
static int check_addend(const struct task *t, struct error *e)
{
    enum { BYPASS = 1 };
    uint64_t at = 0, to = 0;
    if (!t->c->addend || t->c->addend->constant || t->s->value[DPU_EW_CFG] & BYPASS)
        return 0;
    bool inside = rknn_file_offset(t->f, t->c->addend_tensor, t->s->value[RDMA_EW_BASE], &at) &&
                  rknn_file_offset(t->f, t->n->outputs[0], t->s->value[DPU_DST_BASE], &to);
    return check(t, RDMA_EW_BASE, inside && at == to, e);
}

// Programs without any address say nothing.
static bool says_nothing(const struct rknn_state *s)
{
    return !s->value[DPU_DST_BASE] && !s->value[CNA_FEATURE_BASE] && !s->value[CNA_DCOMP_ADDR0];
}

static int check_task(struct task *t, struct error *e)
{
    enum { PACKED = 0xf000 };
    bool packed = t->s->value[CNA_CONV_CON1] & PACKED;
    int r = check_output(t, e);
    r = r < 0 ? r : check_image(t, packed, e);
    r = r < 0 ? r : check_constants(t, e);
    r = r < 0 ? r : check_biases(t, e);
    return r < 0 ? r : check_addend(t, e);
}

int rknn_bases_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct rknn_agree_conv *c, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct task t = {.regs = regs, .f = f, .n = n, .c = c};
    struct rknn_walk w;
    uint32_t value;
    if (f->container.kind != RKNN_LITE || c->y->dims[0] != 1 || !c->integer || !c->y->dims[3] ||
        n->n_inputs < 2 || n->inputs[0] < 0 || n->inputs[1] < 0 || !n->n_outputs ||
        n->outputs[0] < 0 || !rknn_regs_get(regs, DPU_DST_BASE, &value))
        return 0;
    rknn_walk_begin(&w, regs);
    while ((t.s = rknn_walk_next(&w)) != NULL)
        if (!(t.s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) && !says_nothing(t.s) &&
            check_task(&t, e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}
