// Channels lie in blocks, so an input whose last block is not full leaves a gap. Its Concat writes
// all inputs to working memory, gaps included, and has a convolution choose the channels:
//
//     input 0  [ 64 of  64 ]──┐                           weights: one 1 in each row
//     input 1  [128 of 128 ]──┼──► working memory ──► convolution ──► output
//     input 2  [ 68 of  80 ]──┘    [ 272 channels ]                   [ 260 channels ]
//
// Blocks are atoms; the order of the inputs is that of the ones.
//
// What it adds are zero points: the sum of one input is x, of which the units take the output's
// zero point twice, once behind and once, in the bias, in front.
#include "npu/model/rknn/regs/copies/rknn_joins.h"

#include "npu/model/rknn/lower/rknn_weights.h"
#include "npu/model/rknn/regs/check/rknn_fit.h"
#include "npu/model/rknn/regs/check/rknn_tiles.h"
#include "npu/model/rknn/regs/copies/rknn_units.h"

struct joins {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    const struct rknn_node *n;
    const struct rknn_tensor *weight, *y;
};

static const struct rknn_tensor *weight_of(const struct rknn_file *f, const struct rknn_node *n)
{
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const struct rknn_tensor *t = n->inputs[i] < 0 ? NULL : &f->tensors[n->inputs[i]];
        if (t && t->kind == RKNN_KIND_SUBTASK_CONSTANT && t->layout == RKNN_WEIGHT &&
            t->type == RKNN_I8 && t->n_dims == 4)
            return t;
    }
    return NULL;
}

static int refuse_constant(const char *what, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "its convolution's %s do more than to choose the channels that it joins",
                     what);
}

// As many ones as outputs, and nothing else.
static int check_weights(const struct joins *j, struct error *e)
{
    const uint8_t *w = j->weight->data.data;
    uint64_t ones = 0;
    size_t i = 0;
    for (; i + 8 <= j->weight->data.size; i += 8) {
        if (!read_le64(w + i))
            continue;
        for (size_t k = i; k < i + 8; k++) {
            ones += w[k] == 1;
            if (w[k] > 1)
                return refuse_constant("weights", e);
        }
    }
    for (; i < j->weight->data.size; i++)
        ones += w[i];
    return ones == j->y->dims[1] ? 0 : refuse_constant("weights", e);
}

// Where in memory the weight from input i to output o is, of a kernel of one tap.
static size_t place_of(const struct rknn_packing *p, uint32_t o, uint32_t i)
{
    const struct rknn_block *block = &p->main, *tail = &p->input_tail;
    uint32_t upper = block->o1 * block->o2;
    size_t row = (size_t)block->i1 * block->i2 + (size_t)tail->i1 * tail->i2, at = 0;
    // Below the whole blocks of outputs are those of the rest, which have blocks of their own.
    if (o >= upper) {
        at = row * upper;
        o -= upper;
        block = &p->output_tail;
        tail = &p->corner;
    }
    uint32_t main = block->i1 * block->i2, o2 = block->i1 ? block->o2 : tail->o2;
    at += o / o2 * o2 * row;
    // Behind the whole blocks of inputs lies that of the rest.
    if (i >= main) {
        at += (size_t)main * o2;
        i -= main;
        block = tail;
    }
    return at + (size_t)(i / block->i2) * block->i2 * o2 + (size_t)(o % o2) * block->i2 +
           i % block->i2;
}

// The inputs' channels, one behind the other, each input from the beginning of a block on.
static int check_order(const struct joins *j, struct error *e)
{
    struct rknn_packing p;
    uint32_t atom = rknn_fit_atom(j->regs), o = 0, from = 0, all = j->y->dims[1];
    const struct rknn_tensor *w = j->weight;
    if (rknn_weight_packing(&p, w, j->regs->chip, WEIGHT_PLAIN, e) < 0)
        return STATUS_MODEL_INVALID;
    if (p.kind != PACKED_BLOCKS || p.kh != 1 || p.kw != 1 || p.element != 1)
        return refuse_constant("weights", e);
    // There are as many 1s as outputs (check_weights), so each must be in its place. What follows
    // the inputs that fill the output is memory for the chip's own use.
    for (uint32_t k = 0; k < j->n->n_inputs && o < all; k++) {
        const struct rknn_tensor *x = j->n->inputs[k] < 0 ? NULL : &j->f->tensors[j->n->inputs[k]];
        if (!x || x->n_dims != 4 || x->dims[1] > all - o || from + x->dims[1] > p.i)
            return refuse_constant("weights", e);
        for (uint32_t c = 0; c < x->dims[1]; c++, o++) {
            size_t at = place_of(&p, o, from + c);
            if (at >= w->data.size || w->data.data[at] != 1)
                return refuse_constant("weights", e);
        }
        from += (uint32_t)align_up(x->dims[1], atom);
    }
    return o == all ? 0 : refuse_constant("weights", e);
}

// Where in working memory a task writes what it has of an input: behind the blocks of those before.
// Container 0x1004 does not say whose addresses are.
static int check_place(const struct joins *j, const struct rknn_state *s, struct error *e)
{
    int32_t source = s->tensor[RDMA_SRC_BASE];
    uint64_t surface = rknn_fit_bytes(j->regs, s, DPU_DST_SURF_STRIDE), before = 0;
    uint64_t at = s->value[DPU_DST_BASE];
    for (uint32_t k = 0; k < j->n->n_inputs && source >= 0; k++) {
        const struct rknn_tensor *x = j->n->inputs[k] < 0 ? NULL : &j->f->tensors[j->n->inputs[k]];
        uint64_t blocks = x && x->n_dims == 4 ? align_up(x->dims[1], rknn_fit_atom(j->regs)) /
                                                    rknn_fit_atom(j->regs)
                                              : 0;
        bool whole = s->value[RDMA_SRC_BASE] == 0;
        if (j->n->inputs[k] == source &&
            (whole ? at != before * surface
                   : at < before * surface || at >= (before + blocks) * surface))
            return rknn_regs_refuse(j->regs, DPU_DST_BASE, s->value[DPU_DST_BASE],
                                    "not the place of the input that it joins", e);
        if (j->n->inputs[k] == source)
            break;
        before += blocks;
    }
    return 0;
}

// One number for each output, that of the zero point.
static int check_bias(const struct joins *j, const struct rknn_state *s, struct error *e)
{
    int32_t index = s->tensor[RDMA_BS_BASE];
    const struct rknn_tensor *t = index < 0 ? NULL : &j->f->tensors[index];
    if (!t || t->type != RKNN_I32 || t->data.size < 4)
        return refuse_constant("biases", e);
    for (size_t i = 0; i + 4 <= 4 * (size_t)j->y->dims[1]; i += 4)
        if (i + 4 > t->data.size || (int32_t)read_le32(t->data.data + i) != -j->y->zp)
            return refuse_constant("biases", e);
    return 0;
}

// All of its convolutions have one window, of one pixel.
static int check_windows(const struct joins *j, const struct rknn_agree_conv *c, struct error *e)
{
    static const enum rknn_register one[] = {CNA_WEIGHT_SIZE2, CNA_CONV_CON3, CNA_PADDING,
                                             CNA_PAD_CON0};
    enum { CHANNELS = 0xffff };
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        uint32_t varies = rknn_regs_varies(j->regs, one[i]);
        if (one[i] == CNA_WEIGHT_SIZE2 ? varies & ~(uint32_t)CHANNELS : varies)
            return error_set(e, STATUS_MODEL_INVALID,
                             "register %s (0x%04x) holds different values in its convolutions",
                             rknn_register_name(one[i]), rknn_register_at(j->regs->chip, one[i]));
    }
    return rknn_agree_window(j->regs, c, e);
}

static int check_sizes(const struct joins *j, struct error *e)
{
    const struct graph_window window = {
        .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    const uint32_t *y = j->y->dims;
    struct graph_tensor from = {
        .n_dims = 4, .dims = {1, j->weight->dims[1], y[2], y[3]}, .zp = j->y->zp};
    struct graph_tensor to = {.n_dims = 4, .dims = {1, y[1], y[2], y[3]}};
    struct rknn_agree_conv c = {.window = &window, .x = &from, .y = &to, .integer = true};
    int r = check_windows(j, &c, e);
    return r < 0 ? r : rknn_tiles_agree(j->regs, &c, e);
}

int rknn_joins_known(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct graph_node *out, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct joins j = {.regs = regs, .f = f, .n = n, .weight = weight_of(f, n)};
    struct rknn_walk w;
    const struct rknn_state *s;
    bool any = false;
    if (out->op != GRAPH_CONCAT || !j.weight || !n->n_outputs || n->outputs[0] < 0)
        return 0;
    j.y = &f->tensors[n->outputs[0]];
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL) {
        if (s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) {
            if (check_place(&j, s, e) < 0)
                return STATUS_MODEL_INVALID;
            continue;
        }
        any = true;
        if (j.y->n_dims != 4 || j.y->type != RKNN_I8)
            return refuse_constant("weights", e);
        if (rknn_units_copy(regs, f, s, j.y->zp, e) < 0 || check_bias(&j, s, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    if (!any)
        return 0;
    int r = check_weights(&j, e);
    r = r < 0 ? r : check_order(&j, e);
    return r < 0 ? r : check_sizes(&j, e);
}
