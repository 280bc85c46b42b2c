// Turns the tables of a .rknn file into a graph (the driver; lower/ has the operators). The steps:
//
//      tensors      every file tensor becomes the graph tensor of the same index
//      ports        inputs and outputs, with the preprocessing of images
//      nodes        one by one: operands, attributes, register commands, lower_node()
//      arena        where the file places tensors in the chip's memory
//
// Runs once per load, in the worker that loads the model. Tensors that no node uses are not
// checked, as files have many of them for the chip alone; whatever a node does use must be
// understood, else the file is refused.
#include "npu/model/rknn/rknn_graph.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/lower/rknn_weights.h"
#include "npu/model/rknn/regs/check/rknn_choice.h"
#include "npu/model/rknn/regs/check/rknn_memory.h"
#include "npu/model/rknn/regs/check/rknn_moves.h"
#include "npu/model/rknn/regs/check/rknn_places.h"
#include "npu/model/rknn/regs/check/rknn_real.h"
#include "npu/model/rknn/regs/check/rknn_types.h"
#include "npu/model/rknn/regs/copies/rknn_joins.h"
#include "npu/model/rknn/regs/copies/rknn_repeat.h"
#include "npu/model/rknn/regs/copies/rknn_spread.h"
#include "npu/model/rknn/rknn_build.h"

#define ARENA_MAX UINT32_MAX
#define SCALE_MIN 1e-30f
#define SCALE_MAX 1e30f

// ---- tensors ----

// The tensor type of a file's element type; false: not supported.
static bool type_of(uint8_t file_type, enum tensor_type *ret)
{
    static const struct {
        uint8_t file;
        enum tensor_type type;
    } types[] = {
        {RKNN_F32, TENSOR_FLOAT32}, {RKNN_U8, TENSOR_UINT8},    {RKNN_I8, TENSOR_INT8},
        {RKNN_I16, TENSOR_INT16},   {RKNN_I32, TENSOR_INT32},   {RKNN_I64, TENSOR_INT64},
        {RKNN_BOOL, TENSOR_BOOL},   {RKNN_F16, TENSOR_FLOAT16},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].file == file_type) {
            *ret = types[i].type;
            return true;
        }
    return false;
}

// Copies what the file says of a tensor, without judging it: check_tensor() does so for tensors
// that a node uses. 4-D activations in NC1HWC2, and model inputs, are kept channels-last: an
// executor on the CPU then reads a pixel's channels in sequence. Only a single scale can be
// represented; several are refused on use.
static void convert_tensor(const struct rknn_tensor *t, struct graph_tensor *ret)
{
    *ret = (struct graph_tensor){
        .name = t->name, .n_dims = t->n_dims, .arena_offset = GRAPH_NO_OFFSET};
    memcpy(ret->dims, t->dims, sizeof ret->dims);
    bool moving = t->kind >= RKNN_KIND_INPUT && t->kind <= RKNN_KIND_ACTIVATION;
    ret->constant = !moving;
    ret->data = t->data;
    ret->stride_align = t->stride_align;
    ret->quantized = t->n_scales == 1;
    ret->scale = t->scale;
    ret->zp = t->zp;
    ret->channels_last =
        t->n_dims == 4 && moving && (t->layout == RKNN_NC1HWC2 || t->kind == RKNN_KIND_INPUT);
    if (moving && t->size) {
        ret->arena_offset = t->offset;
        ret->arena_bytes = t->size;
    }
}

// A constant in NC1HWC2 is unpacked when the executor takes it (graph_tensor.unpack).
static int unpack_planes(struct rknn_lowering *l, struct graph_tensor *t,
                         const struct rknn_tensor *from, struct error *e)
{
    struct rknn_packing *p = pool_alloc(&l->g->pool, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "the graph", 0);
    int r = rknn_plane_packing(p, from, l->f->container.kind == RKNN_LITE, e);
    if (r < 0)
        return r;
    t->packing = p;
    t->unpack = rknn_unpack;
    return 0;
}

// Constants in float may carry a scale that the converter left behind from a quantization it did
// not carry out: it is ignored. An int32 constant, in contrast, does stand for value * scale.
static void drop_left_over_scale(struct graph_tensor *t)
{
    bool real = t->type == TENSOR_FLOAT32 || t->type == TENSOR_FLOAT16;
    t->quantized = t->quantized && !(t->constant && real);
}

// Refuses zero points outside the type's range, and scales (untrusted; NaN too, by the form of the
// comparison) whose products or quotients with 8- and 16-bit integers could overflow or vanish in
// floats.
static int check_quantization(const struct graph_tensor *t, struct error *e)
{
    int32_t low = 0, high = 0;
    bool wide = t->type == TENSOR_INT32 && t->constant && t->zp == 0;
    switch (t->type) {
    case TENSOR_INT8:
        low = INT8_MIN, high = INT8_MAX;
        break;
    case TENSOR_UINT8:
        high = UINT8_MAX;
        break;
    case TENSOR_INT16:
        low = INT16_MIN, high = INT16_MAX;
        break;
    default:
        if (!wide)
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s: a scale of type %s is not supported", t->name,
                             tensor_type_name(t->type));
    }
    if (!(t->scale >= SCALE_MIN && t->scale <= SCALE_MAX))
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: scale %g is not a number above 0",
                         t->name, (double)t->scale);
    if (t->zp < low || t->zp > high)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: zero point %d is no %s", t->name,
                         t->zp, tensor_type_name(t->type));
    return 0;
}

// Numbers of ONNX's types, as the file has them, that a toolkit may use and nothing here computes
// with.
static int refuse_type(const char *tensor, uint8_t type, struct error *e)
{
    static const struct {
        uint8_t type;
        const char *name, *what_to_do;
    } others[] = {
        {4, "uint16", ""},
        {8, "string", ""},
        {11, "float64", ""},
        {12, "uint32", ""},
        {13, "uint64", ""},
        {16, "bfloat16", ": convert the model with float_dtype float16"},
        {21, "uint4", ": convert the model with quantized_dtype w8a8 (asymmetric_quantized-8)"},
        {22, "int4", ": convert the model with quantized_dtype w8a8 (asymmetric_quantized-8)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].type == type)
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s: numbers of type %s are not computed with here%s", tensor,
                             others[i].name, others[i].what_to_do);
    return error_set(e, STATUS_MODEL_INVALID, "tensor %s: element type %u is not known", tensor,
                     type);
}

// Whether a tensor that a node uses can be: known type, sizes that do not overflow, all of its
// bytes. May be called several times for one tensor.
static int check_tensor(struct rknn_lowering *l, int32_t index, struct error *e)
{
    const struct rknn_tensor *from = &l->f->tensors[index];
    struct graph_tensor *t = &l->g->tensors[index];
    if (from->compressed)
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s is compressed, which is not understood: export the model again "
                         "without weight compression",
                         t->name);
    if (from->odd_slot >= 0)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s: number %d of its table holds 0x%x, which is not understood",
                         t->name, from->odd_slot, from->odd_value);
    if (!type_of(from->type, &t->type))
        return refuse_type(t->name, from->type, e);
    int r = graph_tensor_measure(t, e);
    if (r < 0)
        return r;
    drop_left_over_scale(t);
    if (from->n_scales > 1)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s: quantization per channel is not supported", t->name);
    if (t->quantized && check_quantization(t, e) < 0)
        return STATUS_MODEL_INVALID;
    if (!t->constant)
        return 0;
    if (from->layout == RKNN_NC1HWC2)
        return unpack_planes(l, t, from, e);
    if (t->data.size < t->size)
        return error_set(e, STATUS_MODEL_INVALID, "constant %s: %zu bytes of %zu are there",
                         t->name, t->data.size, t->size);
    return 0;
}

// All tensors at once, with room behind them for outputs that the file leaves out (rknn_spare.c).
static int convert_tensors(struct rknn_lowering *l, struct error *e)
{
    struct graph *g = l->g;
    g->n_tensors = l->f->n_tensors;
    g->tensors = pool_alloc(&g->pool, g->n_tensors + lower_count_spares(l->f), sizeof *g->tensors);
    if (!g->tensors)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        convert_tensor(&l->f->tensors[i], &g->tensors[i]);
    for (uint32_t i = 0; l->f->batch > 1 && i < g->n_tensors; i++)
        lower_batch(&g->tensors[i], l->f->batch);
    return 0;
}

// ---- inputs and outputs ----

// What a channel is divided by; files without a number for it have 0.
static float divisor(float std)
{
    return std != 0 ? std : 1;
}

// Whether preprocessing changes nothing.
static bool is_plain(const struct rknn_preprocess *p)
{
    bool plain = !p->more;
    for (int32_t c = 0; c < 4; c++)
        plain = plain && p->mean[c] == 0 && divisor(p->std[c]) == 1 && p->order[c] == c;
    return plain;
}

// Preprocessing of an image of 1 to 4 channels, or of all elements of any tensor alike; left
// out entirely where it changes nothing. Channel orders outside the image fall back to the
// identity.
static int convert_preprocess(const struct rknn_preprocess *from, const struct graph_tensor *t,
                              struct tensor_preprocess *ret, struct error *e)
{
    uint32_t channels = t->n_dims == 4 ? t->dims[1] : 0;
    if (is_plain(from))
        return 0;
    if ((t->n_dims != 4 || channels > 4) && from->same)
        channels = 1;
    if (channels < 1 || channels > 4)
        return error_set(e, STATUS_MODEL_INVALID,
                         "input %s: mean, standard deviation and order of channels are supported "
                         "for images of at most 4 channels only, or the same for all elements: "
                         "convert the model without them, and apply them before its runs",
                         t->name);
    for (uint32_t c = 0; c < channels; c++) {
        if (!isfinite(from->mean[c]) || !isfinite(from->std[c]))
            return error_set(
                e, STATUS_MODEL_INVALID,
                "input %s: mean %g or standard deviation %g of channel %u is no number", t->name,
                (double)from->mean[c], (double)from->std[c], c);
        bool in_range = from->order[c] >= 0 && from->order[c] < (int32_t)channels;
        ret->mean[c] = from->mean[c];
        ret->std[c] = divisor(from->std[c]);
        ret->order[c] = in_range ? (uint8_t)from->order[c] : (uint8_t)c;
    }
    ret->n_channels = channels;
    return 0;
}

// Inputs and outputs of the model, checked as if a node used them; a constant cannot be one.
static int convert_ports(struct rknn_lowering *l, struct error *e)
{
    const struct rknn_file *f = l->f;
    struct graph *g = l->g;
    g->inputs = f->inputs;
    g->outputs = f->outputs;
    g->n_inputs = f->n_inputs;
    g->n_outputs = f->n_outputs;
    struct tensor_preprocess *p = pool_alloc(&g->pool, g->n_inputs, sizeof *p);
    if (!p)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++) {
        bool input = i < g->n_inputs;
        uint32_t index = input ? g->inputs[i] : g->outputs[i - g->n_inputs];
        int r = check_tensor(l, (int32_t)index, e);
        if (r < 0)
            return r;
        if (g->tensors[index].constant)
            return error_set(e, STATUS_MODEL_INVALID, "%s %s is a constant",
                             input ? "input" : "output", g->tensors[index].name);
        if (input && convert_preprocess(&f->preprocess[i], &g->tensors[index], &p[i], e) < 0)
            return STATUS_MODEL_INVALID;
    }
    g->preprocess = p;
    return 0;
}

// ---- nodes ----

// Inputs that only the chip uses: lookup-table programs, sub-task constants and scratch memory.
static bool only_for_the_chip(const struct rknn_tensor *t)
{
    static const char tail[] = "_exSecondary";
    size_t n = strlen(t->name), m = sizeof tail - 1;
    return t->kind == RKNN_KIND_SUBTASK_CONSTANT || t->kind == RKNN_KIND_LUT_PROGRAM ||
           (n >= m && strcmp(t->name + n - m, tail) == 0);
}

// Inputs that are left out are -1, tensor 0 of files that number from 1, or constants without data.
static bool stands_for_none(const struct rknn_file *f, int32_t index)
{
    const struct rknn_tensor *t = index < 0 ? NULL : &f->tensors[index];
    if (!t || (t->kind == 0 && !t->n_dims))
        return true;
    return !t->data.size && (t->kind == RKNN_KIND_CONSTANT || t->kind == RKNN_KIND_CPU_CONSTANT);
}

// The node's inputs without those of the chip, -1 for each that is left out.
static int take_inputs(struct rknn_lowering *l, struct error *e)
{
    const struct rknn_node *n = l->node;
    l->inputs = pool_alloc(&l->g->pool, n->n_inputs, sizeof *l->inputs);
    if (!l->inputs)
        return error_no_memory(e, "the graph", 0);
    l->n_inputs = 0;
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        int32_t index = n->inputs[i];
        if (index > 0 && only_for_the_chip(&l->f->tensors[index]))
            continue;
        l->inputs[l->n_inputs++] = stands_for_none(l->f, index) ? -1 : index;
    }
    return 0;
}

struct graph_tensor *lower_input(const struct rknn_lowering *l, uint32_t i)
{
    return i < l->n_inputs && l->inputs[i] >= 0 ? &l->g->tensors[l->inputs[i]] : NULL;
}

struct graph_tensor *lower_output(const struct rknn_lowering *l, uint32_t i)
{
    bool there = i < l->node->n_outputs && l->outputs[i] >= 0;
    return there ? &l->g->tensors[l->outputs[i]] : NULL;
}

// Checks every tensor at the node; outputs must not be constants.
static int check_edges(struct rknn_lowering *l, struct error *e)
{
    for (uint32_t i = 0; i < l->n_inputs; i++)
        if (l->inputs[i] >= 0 && check_tensor(l, l->inputs[i], e) < 0)
            return STATUS_MODEL_INVALID;
    for (uint32_t i = 0; i < l->node->n_outputs; i++) {
        int32_t index = l->node->outputs[i];
        if (index >= 0 && check_tensor(l, index, e) < 0)
            return STATUS_MODEL_INVALID;
        if (index >= 0 && l->g->tensors[index].constant)
            return error_set(e, STATUS_MODEL_INVALID, "its output %s is a constant",
                             l->g->tensors[index].name);
    }
    return 0;
}

// Packed weights mean something to convolutions alone, which give them their `unpack`.
static int check_packed(const struct rknn_lowering *l, struct error *e)
{
    for (uint32_t i = 0; i < l->n_inputs; i++) {
        const struct graph_tensor *t = lower_input(l, i);
        if (t && t->constant && !t->unpack && l->f->tensors[l->inputs[i]].layout == RKNN_WEIGHT)
            return error_set(e, STATUS_MODEL_INVALID,
                             "node %s (%s): its input %s is packed as a convolution's weights",
                             l->node->name, l->node->op, t->name);
    }
    return 0;
}

// Attention is a net of its own: its reader takes what it needs of each task.
static int check_memory(const struct rknn_lowering *l, struct error *e)
{
    if (l->out->on_cpu || !l->regs->checks ||
        (rknn_memory_known(l->regs, l->node, e) == 0 &&
         rknn_real_known(l->regs, l->f, l->node, e) == 0 &&
         rknn_places_agree(l->regs, l->f, l->node, l->out->op, e) == 0 &&
         rknn_repeat_known(l->regs, l->f, l->node, e) == 0 &&
         rknn_spread_known(l->regs, l->f, l->node, e) == 0 &&
         rknn_pad_known(l->regs, l->f, l->node, l->out, e) == 0 &&
         rknn_convert_known(l->regs, l->f, l->node, e) == 0 &&
         rknn_moves_agree(l->regs, l->f, l->node, l->out, e) == 0 &&
         rknn_joins_known(l->regs, l->f, l->node, l->out, e) == 0 &&
         rknn_types_agree(l->regs, l->f, l->node, e) == 0))
        return 0;
    return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
}

// What is to be said of any node.
static void begin_node(struct rknn_lowering *l, const struct rknn_node *node)
{
    l->node = node;
    l->outputs = node->outputs;
    l->out = &l->g->nodes[l->g->n_nodes];
    *l->out = (struct graph_node){.name = node->name,
                                  .type = node->op,
                                  .on_cpu = node->device == 0,
                                  .n_tasks = node->n_tasks};
    if (node->device != 0 && node->n_tasks)
        l->out->program = (uint32_t)(node - l->f->nodes) + 1;
}

// Fills the graph's next node. The order matters: spare outputs need the checked inputs, lowering
// needs the outputs and the registers, and the batch check needs the node's final operands.
static int understand_node(struct rknn_lowering *l, const struct rknn_node *node, struct error *e)
{
    begin_node(l, node);
    struct graph_node *out = l->out;
    int r = take_inputs(l, e);
    if (r < 0)
        return r;
    if (check_edges(l, e) < 0 || rknn_attrs_check(node, e) < 0)
        return error_prefix(e, "node %s (%s)", node->name, node->op);
    r = lower_spares(l, e);
    if (r < 0)
        return r;
    if (!lower_output(l, 0))
        return lower_refuse(l, e, "it has no output");
    out->inputs = l->inputs;
    out->n_inputs = l->n_inputs;
    out->outputs = l->outputs;
    out->n_outputs = node->n_outputs;
    r = rknn_regs_load(l->regs, l->f, node, e);
    if (r == 0 && !out->on_cpu && rknn_choice_check(l->regs, e) < 0)
        return error_prefix(e, "node %s (%s)", node->name, node->op);
    rknn_attrs_begin(node);
    if (r == 0)
        r = lower_node(l, e);
    if (r == 0 && out->op != GRAPH_CUSTOM && rknn_attrs_end(node, e) < 0)
        return error_prefix(e, "node %s (%s)", node->name, node->op);
    if (r == 0)
        r = lower_chains(l, e);
    if (r == 0)
        r = lower_copies(l, e);
    if (r == 0)
        r = lower_check_read(l, e);
    if (r == 0)
        r = check_memory(l, e);
    if (r == 0 && (out->on_cpu || out->op == GRAPH_CUSTOM))
        r = rknn_attrs_all(node, &l->g->pool, &out->attributes, &out->n_attributes, e);
    if (r == 0)
        r = check_packed(l, e);
    if (r == 0)
        r = lower_check_batch(l, e);
    return r;
}

// ---- nodes that are not understood ----

// What a program reads of constants is between it and its registers, but for what the file says in
// words that nobody understands.
static int check_program_input(struct rknn_lowering *l, int32_t index, struct error *e)
{
    const struct rknn_tensor *from = &l->f->tensors[index];
    if (!l->g->tensors[index].constant)
        return check_tensor(l, index, e);
    if (from->compressed || from->odd_slot >= 0)
        return error_set(e, STATUS_MODEL_INVALID, "its constant %s is of a kind that is not known",
                         from->name);
    return 0;
}

// Fills the graph's next node: its tensors, without constants. `why` it is not understood.
static int take_program(struct rknn_lowering *l, const struct rknn_node *node, const char *why,
                        struct error *e)
{
    begin_node(l, node);
    struct graph_node *out = l->out;
    out->op = GRAPH_PROGRAM;
    out->unread = pool_text(&l->g->pool, (struct bytes){(const uint8_t *)why, strlen(why)});
    int r = out->unread ? take_inputs(l, e) : error_no_memory(e, "the graph", 0);
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n_inputs && r == 0; i++) {
        int32_t index = l->inputs[i];
        r = index < 0 ? 0 : check_program_input(l, index, e);
        if (r == 0 && index >= 0 && !l->g->tensors[index].constant)
            l->inputs[n++] = index;
    }
    for (uint32_t i = 0; i < node->n_outputs && r == 0; i++)
        r = node->outputs[i] < 0 ? 0 : check_tensor(l, node->outputs[i], e);
    out->inputs = l->inputs;
    out->n_inputs = n;
    out->outputs = node->outputs;
    out->n_outputs = node->n_outputs;
    return r;
}

// Why the node was refused stays what is said if its program is of no help either.
static int convert_node(struct rknn_lowering *l, const struct rknn_node *node, struct error *e)
{
    const struct rknn_graph_choice *c = l->choice;
    bool chosen = c->programs && c->by_program && c->by_program[node - l->f->nodes];
    struct error unread = {0}, neither;
    int r = chosen ? error_set(&unread, STATUS_MODEL_INVALID, "node %s (%s): the options say so",
                               node->name, node->op)
                   : understand_node(l, node, &unread);
    bool program = r == STATUS_MODEL_INVALID && c->programs && (chosen || !c->strict) &&
                   node->device != 0 && node->n_tasks;
    if (chosen && !program)
        r = understand_node(l, node, &unread);
    else if (program)
        r = take_program(l, node, unread.text, &neither);
    l->g->n_nodes += r == 0;
    return r == 0 ? 0 : error_set(e, r, "%s", chosen && program ? neither.text : unread.text);
}

// A node that is not wanted: what it computes may be looked at all the same.
static int check_outputs(struct rknn_lowering *l, const struct rknn_node *n, struct error *e)
{
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i] >= 0 && check_tensor(l, n->outputs[i], e) < 0)
            return error_prefix(e, "node %s (%s)", n->name, n->op);
    return 0;
}

// Nodes are in the order of execution already. InputOperator and OutputOperator mark the ends of
// the graph and compute nothing.
static int convert_nodes(struct rknn_lowering *l, struct error *e)
{
    struct graph *g = l->g;
    g->nodes = pool_alloc(&g->pool, l->f->n_nodes, sizeof *g->nodes);
    if (!g->nodes)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < l->f->n_nodes; i++) {
        const struct rknn_node *n = &l->f->nodes[i];
        if (l->choice->wanted && !l->choice->wanted[i]) {
            if (check_outputs(l, n, e) < 0)
                return STATUS_MODEL_INVALID;
            continue;
        }
        if (rknn_node_is_end(n)) {
            if (rknn_regs_load(l->regs, l->f, n, e) < 0)
                return STATUS_MODEL_INVALID;
            continue;
        }
        int r = convert_node(l, n, e);
        if (r < 0)
            return r;
    }
    return 0;
}

// ---- the arena ----

// The arena's size: the end of the last tensor in it. A tensor whose place is too small (a batch,
// for example, has grown) gives it up: the executor then finds one itself. The chip's addresses
// have 32 bits.
static int measure_arena(struct graph *g, struct error *e)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        struct graph_tensor *t = &g->tensors[i];
        if (t->arena_offset != GRAPH_NO_OFFSET && t->arena_bytes < t->size)
            t->arena_offset = GRAPH_NO_OFFSET;
        uint64_t end = t->arena_offset == GRAPH_NO_OFFSET ? 0 : t->arena_offset + t->arena_bytes;
        if (end > ARENA_MAX)
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s ends at byte %llu, the chip's memory at 4 GB", t->name,
                             (unsigned long long)end);
        if (end > g->arena_size && t->n_elems)
            g->arena_size = end;
    }
    return 0;
}

int rknn_graph(struct graph *g, const struct rknn_file *f, const struct chip *chip, struct error *e)
{
    return rknn_graph_of(g, f, chip, &(struct rknn_graph_choice){0}, e);
}

// The register state is large (192 KB), so it is on the heap, and shared by all nodes.
int rknn_graph_of(struct graph *g, const struct rknn_file *f, const struct chip *chip,
                  const struct rknn_graph_choice *choice, struct error *e)
{
    *g = (struct graph){.programs = choice->programs};
    struct rknn_regs *regs = rknn_regs_new(chip);
    if (!regs)
        return error_no_memory(e, "the graph", 0);
    struct rknn_lowering l = {.f = f, .chip = chip, .choice = choice, .g = g, .regs = regs};
    int r = rknn_build_check(f, e);
    if (r == 0)
        r = convert_tensors(&l, e);
    if (r == 0)
        r = convert_ports(&l, e);
    if (r == 0)
        r = convert_nodes(&l, e);
    if (r == 0)
        r = measure_arena(g, e);
    rknn_regs_free(regs);
    if (r < 0)
        graph_done(g);
    return r;
}
