// Convolutions, transposed convolutions and pools of a .rknn file. A convolution is put together
// from
//
//      geometry        attributes, or registers in the lite container
//      weight          its packing, and what kind of convolution it is (plain, grouped, depthwise)
//      activations     the suffix of the operator's name, lookup tables, registers
//      quantization    bias table and registers (int8); fp16 has none
//
// Images are NCHW by their logical shape. Index 0 of a window is height, index 1 width.
#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/lower/rknn_weights.h"
#include "npu/model/rknn/regs/check/rknn_bases.h"
#include "npu/model/rknn/regs/check/rknn_tiles.h"
#include "npu/model/rknn/regs/rknn_agree.h"
#include "npu/model/rknn/regs/rknn_lut.h"
#include "npu/model/rknn/regs/rknn_quant.h"

#define MAX_WINDOW 4096      // of a kernel, stride, dilation or pad
#define MAX_SIDE   (1 << 16) // of an image: making a convolution takes memory for each column

// ---- geometry ----

// An attribute of exactly n (at most 4) numbers between `least` and MAX_WINDOW; *ret stays as it is
// when the file has none.
static int take_numbers(const struct rknn_lowering *l, const char *name, uint32_t n, uint32_t min,
                        uint32_t *ret, struct error *e)
{
    int64_t values[4];
    uint32_t count = rknn_attr_ints(l->node, name, values, n);
    if (count == 0)
        return 0;
    if (count != n)
        return lower_refuse(l, e, "%s has %u numbers, %u are expected", name, count, n);
    for (uint32_t i = 0; i < n; i++) {
        if (values[i] < min || values[i] > MAX_WINDOW)
            return lower_refuse(l, e, "%s %lld is out of range", name, (long long)values[i]);
        ret[i] = (uint32_t)values[i];
    }
    return 0;
}

// SAME_UPPER and SAME_LOWER: as much padding as makes the output ceil(input / stride). An odd line
// goes to the end (UPPER) or to the beginning (LOWER), as in ONNX.
static void pad_automatically(const struct rknn_lowering *l, struct graph_window *w)
{
    char mode[16];
    rknn_attr_text(l->node, "auto_pad", "NOTSET", mode, sizeof mode);
    bool upper = strcmp(mode, "SAME_UPPER") == 0;
    if (!upper && strcmp(mode, "SAME_LOWER") != 0)
        return;
    const struct graph_tensor *x = lower_input(l, 0);
    for (int i = 0; i < 2; i++) {
        uint32_t in = x->dims[2 + i], out = (in + w->stride[i] - 1) / w->stride[i];
        int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t total = ((int64_t)out - 1) * w->stride[i] + reach - in;
        uint32_t both = total > 0 ? (uint32_t)total : 0;
        w->pad[i] = upper ? both / 2 : (both + 1) / 2;
        w->pad[2 + i] = both - w->pad[i];
    }
}

// The geometry by attributes; what the file leaves out keeps the caller's values.
static int take_window(const struct rknn_lowering *l, struct graph_window *w, struct error *e)
{
    if (take_numbers(l, "kernel_shape", 2, 1, w->kernel, e) < 0 ||
        take_numbers(l, "strides", 2, 1, w->stride, e) < 0 ||
        take_numbers(l, "dilations", 2, 1, w->dilation, e) < 0 ||
        take_numbers(l, "pads", 4, 0, w->pad, e) < 0)
        return STATUS_MODEL_INVALID;
    pad_automatically(l, w);
    return 0;
}

// The lite container has no attributes: the registers of the node's first task say the geometry,
// but only padding at the top and left. The other two follow from the output's size: the last
// window must end at pad + input + pad.
static int window_from_registers(const struct rknn_lowering *l, struct graph_window *w,
                                 struct error *e)
{
    uint32_t step, pad;
    if (!rknn_regs_get(l->regs, CNA_CONV_CON3, &step) ||
        !rknn_regs_get(l->regs, CNA_PAD_CON0, &pad))
        return lower_refuse(l, e, "neither attributes nor register commands say its geometry");
    w->stride[1] = step & 7;
    w->stride[0] = step >> 3 & 7;
    w->dilation[1] = (step >> 16 & 0x1f) + 1;
    w->dilation[0] = (step >> 21 & 0x1f) + 1;
    w->pad[0] = pad & 0xff;
    w->pad[1] = pad >> 8 & 0xff;
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    for (int i = 0; i < 2; i++) {
        if (!w->stride[i])
            return lower_refuse(l, e, "register %s (0x%04x) says stride 0",
                                rknn_register_name(CNA_CONV_CON3),
                                rknn_register_at(l->chip, CNA_CONV_CON3));
        int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t end = ((int64_t)y->dims[2 + i] - 1) * w->stride[i] + reach;
        int64_t after = end - w->pad[i] - x->dims[2 + i];
        if (after > MAX_WINDOW)
            return lower_refuse(l, e, "its output is too large for its input");
        w->pad[2 + i] = after > 0 ? (uint32_t)after : 0;
    }
    return 0;
}

// The output of a transposed convolution is (x - 1) * stride + reach - pads, plus fewer extra lines
// than the larger of stride and dilation (ONNX output_padding). Without attributes its strides
// would be a guess.
static int check_transposed(const struct rknn_lowering *l, const struct graph_window *w,
                            struct error *e)
{
    int64_t strides[2];
    if (!rknn_attr_ints(l->node, "strides", strides, 2))
        return lower_refuse(l, e, "the file does not say its strides");
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    for (int i = 0; i < 2; i++) {
        int64_t reach = (int64_t)w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t all = ((int64_t)x->dims[2 + i] - 1) * w->stride[i] + reach;
        int64_t more = y->dims[2 + i] - (all - w->pad[i] - w->pad[2 + i]);
        uint32_t step = w->stride[i] > w->dilation[i] ? w->stride[i] : w->dilation[i];
        if (more < 0 || more >= step)
            return lower_refuse(l, e, "an image of %u does not give one of %u in dimension %d",
                                x->dims[2 + i], y->dims[2 + i], 2 + i);
    }
    return 0;
}

// ---- weights ----

// By the weight's shape [1, C, kh, kw]: the file does not name such convolutions. Transposed ones
// have [C, 1, kh, kw], and say that they have as many groups.
static bool is_depthwise(const struct rknn_lowering *l)
{
    const uint32_t *w = l->f->tensors[l->inputs[1]].dims;
    uint32_t c = lower_input(l, 0)->dims[1];
    if (c < 2 || lower_output(l, 0)->dims[1] != c)
        return false;
    if (l->out->op == GRAPH_CONV)
        return w[0] == 1 && w[1] == c;
    return w[0] == c && w[1] == 1 && rknn_attr_int(l->node, "group", 1) == c;
}

// The weight as the graph has it, [outputs, inputs of a group, kh, kw], unpacked by the executor
// when needed. One weight may serve several nodes, if all of them read it the same way.
static int take_weight(struct rknn_lowering *l, enum rknn_weight_use use, struct rknn_packing **ret,
                       struct error *e)
{
    struct graph_tensor *w = lower_input(l, 1);
    struct rknn_packing *p = pool_alloc(&l->g->pool, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a weight", sizeof *p);
    const struct rknn_tensor *from = &l->f->tensors[l->inputs[1]];
    bool group = use == WEIGHT_PLAIN && l->out->window.groups > 1;
    if (rknn_weight_packing(p, from, l->chip, use, e) < 0 ||
        (group && rknn_check_spare(p, from, e) < 0))
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    const struct rknn_packing *before = w->packing;
    if (before && (before->o != p->o || before->i != p->i || before->kind != p->kind))
        return lower_refuse(l, e, "its weight %s is used in two different ways", w->name);
    w->dims[0] = p->o;
    w->dims[1] = p->i;
    w->packing = p;
    w->unpack = rknn_unpack;
    *ret = p;
    return graph_tensor_measure(w, e);
}

// ---- activations ----

// Activations that the DPU has no arithmetic for: it interpolates in a table.
static bool needs_lut(enum graph_post_kind kind)
{
    return kind == POST_SIGMOID || kind == POST_SWISH || kind == POST_HARD_SWISH ||
           kind == POST_HARD_SIGMOID || kind == POST_TANH || kind == POST_GELU ||
           kind == POST_GELU_TANH || kind == POST_MISH || kind == POST_ELU ||
           kind == POST_SOFTPLUS || kind == POST_SWOOSH;
}

// An integer convolution computes such activations with a table that its tasks load: replaces the
// first activation by that table, to get the chip's values. *ret: the table; NULL: none is needed.
static int take_lut(struct rknn_lowering *l, struct graph_lut **ret, struct error *e)
{
    struct graph_post *first = &l->out->post[0];
    *ret = NULL;
    for (uint32_t i = 1; i < l->out->n_post; i++)
        if (needs_lut(l->out->post[i].kind))
            return lower_refuse(l, e,
                                "how a lookup table behind something else is used is not "
                                "known");
    if (!l->out->n_post || !needs_lut(first->kind))
        return 0;
    struct graph_lut *lut;
    int r = rknn_lut_new(l->regs, l->f, l->node, &l->g->pool, &lut, e);
    if (r < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    *first = (struct graph_post){.kind = POST_LUT, .lut = lut};
    *ret = lut;
    return 0;
}

// Scales, biases and zero points of an int8 convolution, and the slope of a fused LeakyRelu.
static int take_quantization(struct rknn_lowering *l, const struct rknn_packing *p, int32_t bias,
                             struct error *e)
{
    struct rknn_conv_sources s = {
        .file = l->f,
        .node = l->node,
        .chip = l->chip,
        .regs = l->regs,
        .packing = p,
        .weight = &l->f->tensors[l->inputs[1]],
        .bias = bias < 0 ? NULL : &l->f->tensors[bias],
        .output = &l->f->tensors[l->outputs[0]],
    };
    struct graph_lut *lut = NULL;
    struct graph_post *post = l->out->post;
    int r = take_lut(l, &lut, e);
    if (r < 0)
        return r;
    bool leaky = l->out->n_post && post[0].kind == POST_LEAKY_RELU;
    r = rknn_conv_quant(&s, &l->g->pool, lut, leaky ? &post[0].alpha : NULL, &l->out->quant, e);
    // Whatever lies in memory beside the last channel is multiplied, too: its weights must be none.
    if (r == 0 && !l->out->on_cpu)
        r = rknn_check_spare_zeros(p, s.weight, l->out->quant->nz, l->f->container.version == 1, e);
    return r < 0 ? error_prefix(e, "node %s (%s)", l->node->name, l->node->op) : 0;
}

// ---- nodes ----

// Supported are int8 x int8 -> int8 with scales, and fp16 x fp16 -> fp16 or float32. The limit on
// sides bounds what the executor allocates per column.
static int check_operands(const struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *w = lower_input(l, 1);
    const struct graph_tensor *y = lower_output(l, 0);
    if (!x || !w || !w->constant)
        return lower_refuse(l, e, "its weight is not a constant of the file");
    if (x->n_dims != 4 || w->n_dims != 4 || y->n_dims != 4 || !x->n_elems || !w->n_elems ||
        !y->n_elems)
        return lower_refuse(l, e, "only images (4 dimensions, none of them 0) can be convolved");
    for (int i = 2; i < 4; i++)
        if (x->dims[i] > MAX_SIDE || y->dims[i] > MAX_SIDE)
            return lower_refuse(l, e, "an image of %ux%u is larger than %d on a side", x->dims[2],
                                x->dims[3], MAX_SIDE);
    bool integer = x->type == TENSOR_INT8 && w->type == TENSOR_INT8 && y->type == TENSOR_INT8;
    bool real = x->type == TENSOR_FLOAT16 && w->type == TENSOR_FLOAT16 &&
                (y->type == TENSOR_FLOAT16 || y->type == TENSOR_FLOAT32);
    bool mixed = x->type == TENSOR_FLOAT16 && w->type == TENSOR_INT8; // w8a16
    if (!integer && !real)
        return lower_refuse(l, e, "%s x %s -> %s is not supported%s", tensor_type_name(x->type),
                            tensor_type_name(w->type), tensor_type_name(y->type),
                            mixed ? ": convert the model with quantized_dtype w8a8, or without "
                                    "quantization"
                                  : "");
    if (integer && !(x->quantized && y->quantized))
        return lower_refuse(l, e, "its input or output has no scale");
    return 0;
}

// The inputs after the weight: a bias is a constant of one dimension at place 2, an addend (a fused
// Add) anything else. -1: there is none.
static void find_bias(const struct rknn_lowering *l, int32_t *bias, int32_t *addend)
{
    *bias = *addend = -1;
    for (uint32_t i = 2; i < l->n_inputs && i < 4; i++) {
        const struct graph_tensor *t = lower_input(l, i);
        if (t && i == 2 && t->n_dims == 1 && t->constant)
            *bias = l->inputs[i];
        else if (t && *addend < 0)
            *addend = l->inputs[i];
    }
}

// The graph's convolution has three inputs: x, weight, bias or -1. An addend is part of POST_ADD.
static int trim_inputs(struct rknn_lowering *l, int32_t bias)
{
    struct graph_node *out = l->out;
    int32_t *inputs = pool_alloc(&l->g->pool, 3, sizeof *inputs);
    if (!inputs)
        return -1;
    inputs[0] = l->inputs[0];
    inputs[1] = l->inputs[1];
    inputs[2] = bias;
    out->inputs = inputs;
    out->n_inputs = 3;
    return 0;
}

// Of groups of one channel, depthwise packing is known, which has one output for each.
static int check_groups(const struct rknn_lowering *l, bool depthwise, struct error *e)
{
    uint32_t groups = l->out->window.groups;
    bool single = groups == lower_input(l, 0)->dims[1] && !depthwise;
    bool several = l->out->op == GRAPH_CONV_TRANSPOSE && !depthwise;
    if (groups > 1 && (single || several))
        return lower_refuse(l, e, "how the weights of %u groups are packed is not known", groups);
    return 0;
}

// Container 0x1004 does not say whose an address is, nor are there files to tell where a transposed
// convolution's tasks begin: such a program is run as it is.
static int check_transposed_places(const struct rknn_lowering *l, struct error *e)
{
    uint32_t to = 0;
    if (l->f->container.kind != RKNN_LITE || l->out->op != GRAPH_CONV_TRANSPOSE ||
        !rknn_regs_get(l->regs, DPU_DST_BASE, &to) || !to)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID, "where its tasks begin is not known");
}

// Whether the registers say the same geometry.
static int check_registers(const struct rknn_lowering *l, bool depthwise, int32_t addend,
                           struct error *e)
{
    struct rknn_agree_conv c = {.window = &l->out->window,
                                .x = lower_input(l, 0),
                                .y = lower_output(l, 0),
                                .depthwise = depthwise,
                                .integer = lower_input(l, 0)->type == TENSOR_INT8,
                                .addend = addend < 0 ? NULL : &l->g->tensors[addend],
                                .addend_tensor = addend,
                                .relu_behind = strstr(l->suffix, "AddRelu") != NULL,
                                .of_input = l->f->tensors[l->inputs[0]].kind == RKNN_KIND_INPUT,
                                .transposed = l->out->op == GRAPH_CONV_TRANSPOSE};
    bool tiled = strncmp(l->node->op, "Conv", 4) == 0, plain = tiled && !c.transposed;
    if (l->out->on_cpu)
        return 0;
    int r = rknn_agree_conv(l->regs, &c, e);
    if (r == 0 && tiled)
        r = rknn_tiles_agree(l->regs, &c, e);
    if (r == 0 && plain)
        r = rknn_bases_agree(l->regs, l->f, l->node, &c, e);
    r = r < 0 ? r : check_transposed_places(l, e);
    if (r == 0)
        return 0;
    return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
}

// What is behind the weight is a bias, or added by the operator's name: nothing is left out. And a
// bias that the registers fetch is the node's.
static int check_inputs(const struct rknn_lowering *l, int32_t bias, int32_t addend,
                        struct error *e)
{
    bool added = addend < 0;
    for (uint32_t i = 0; i < l->out->n_post; i++)
        added = added || l->out->post[i].kind == POST_ADD;
    if (!added)
        return lower_refuse(l, e, "what its input %s is for is not known",
                            l->g->tensors[addend].name);
    const struct graph_tensor *t = addend < 0 ? NULL : &l->g->tensors[addend];
    bool bytes = lower_input(l, 0)->type == TENSOR_INT8;
    if (bytes && t && !l->out->on_cpu && (t->type != TENSOR_INT8 || !t->quantized))
        return lower_refuse(l, e, "what it adds, %s, are no bytes with a scale", t->name);
    if (l->out->on_cpu || bytes)
        return 0;
    int32_t fetched = rknn_regs_tensor(l->regs, RDMA_BS_BASE);
    if (bias >= 0 && l->g->tensors[bias].type != TENSOR_FLOAT32)
        return lower_refuse(l, e, "its bias is of %s", tensor_type_name(l->g->tensors[bias].type));
    if (fetched >= 0 && fetched != bias && fetched != addend)
        return lower_refuse(l, e, "its registers fetch %s", l->f->tensors[fetched].name);
    return 0;
}

// Numbers of a float16 convolution's activations, and what its weights must be.
static int take_halves(struct rknn_lowering *l, const struct rknn_packing *p, struct error *e)
{
    lower_fp16_posts(l);
    if (l->out->on_cpu || rknn_check_halves(p, &l->f->tensors[l->inputs[1]], e) == 0)
        return 0;
    return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
}

// The order matters: groups need the geometry, packing needs the groups, and quantization needs
// packing and activations.
int lower_conv(struct rknn_lowering *l, struct error *e)
{
    int r = check_operands(l, e);
    if (r < 0)
        return r;
    const struct graph_tensor *x = lower_input(l, 0), *w = lower_input(l, 1);
    bool depthwise = is_depthwise(l), transposed = l->out->op == GRAPH_CONV_TRANSPOSE;
    struct graph_window *window = &l->out->window;
    *window = (struct graph_window){.kernel = {w->dims[2], w->dims[3]},
                                    .stride = {1, 1},
                                    .dilation = {1, 1},
                                    .groups = depthwise ? x->dims[1] : 1};
    r = l->f->container.kind == RKNN_LITE && !transposed ? window_from_registers(l, window, e)
                                                         : take_window(l, window, e);
    if (r == 0 && transposed)
        r = check_transposed(l, window, e);
    if (r < 0)
        return r;
    if (!depthwise && take_numbers(l, "group", 1, 0, &window->groups, e) < 0)
        return STATUS_MODEL_INVALID;
    window->groups = window->groups ? window->groups : 1;
    struct rknn_packing *p = NULL;
    int32_t bias, addend;
    find_bias(l, &bias, &addend);
    enum rknn_weight_use plain = depthwise ? WEIGHT_DEPTHWISE : WEIGHT_PLAIN;
    enum rknn_weight_use turned = depthwise ? WEIGHT_DEPTHWISE_TRANSPOSED : WEIGHT_TRANSPOSED;
    enum rknn_weight_use use = transposed ? turned : plain;
    r = check_groups(l, depthwise, e);
    if (r < 0)
        return r;
    r = take_weight(l, use, &p, e);
    if (r == 0)
        r = lower_posts(l, l->suffix, addend, e);
    if (r == 0 && x->type == TENSOR_INT8)
        r = take_quantization(l, p, bias, e);
    else if (r == 0)
        r = take_halves(l, p, e);
    if (r == 0)
        r = check_inputs(l, bias, addend, e);
    if (r == 0)
        r = lower_check_posts(l, e);
    if (r == 0 && x->type != TENSOR_INT8)
        r = lower_check_table(l, lower_fp16_gain(l), e);
    if (r == 0)
        r = check_registers(l, depthwise, addend, e);
    if (r == 0 && trim_inputs(l, bias) < 0)
        r = error_no_memory(e, "a node", 0);
    return r;
}

// Max and average pools, over a window or (Global…) the whole image.
int lower_pool(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    if (!x || x->n_dims != 4 || y->n_dims != 4)
        return lower_refuse(l, e, "only images (4 dimensions) can be pooled");
    struct graph_window *w = &l->out->window;
    *w = (struct graph_window){.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    bool global = strncmp(l->node->op, "Global", 6) == 0;
    if (global) {
        w->kernel[0] = x->dims[2];
        w->kernel[1] = x->dims[3];
    } else if (take_window(l, w, e) < 0) {
        return STATUS_MODEL_INVALID;
    }
    if (!w->kernel[0] || !w->kernel[1])
        return lower_refuse(l, e, "its kernel's size is not known");
    w->count_pad = rknn_attr_int(l->node, "count_include_pad", 0) != 0;
    bool average = l->out->op == GRAPH_AVERAGE_POOL;
    // The whole image may take several steps.
    if (!l->out->on_cpu && !global && rknn_agree_pool(l->regs, w, average, y, e) < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    l->out->n_inputs = 1;
    return lower_posts(l, l->suffix, -1, e);
}
