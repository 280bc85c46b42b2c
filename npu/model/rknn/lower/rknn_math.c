// Operators of .rknn files that compute with values: arithmetic, comparisons, casts, products.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/copies/rknn_scalar.h"
#include "npu/model/rknn/regs/rknn_chain.h"
#include "npu/model/rknn/regs/rknn_sum.h"

static const char unknown[] = "how its registers compute it with integers is not known";

// An Add or a Mul of quantized numbers as its registers have it.
static int take_sum(struct rknn_lowering *l, const int32_t inputs[2], struct error *e)
{
    struct graph_sum found, *sum;
    bool relu = strcmp(l->suffix, "Relu") == 0;
    if ((*l->suffix && !relu) || !rknn_sum_read(l->regs, l->f, inputs, relu, &found))
        return lower_refuse(l, e, unknown);
    if (found.product != (l->out->op == GRAPH_MUL))
        return lower_refuse(l, e, "its registers %s", found.product ? "multiply" : "add");
    sum = pool_alloc(&l->g->pool, 1, sizeof *sum);
    if (!sum)
        return error_no_memory(e, "a sum", sizeof *sum);
    *sum = found;
    l->out->sum = sum;
    return 0;
}

// Whether adding the constant in real numbers comes to what the chain does with the numbers that it
// adds to each channel, for all bytes, by a step at most.
static bool adds_the_same(const struct rknn_lowering *l, const struct graph_chain *chain,
                          struct bytes added, const float *constant)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    for (uint32_t c = 0; c < y->dims[1]; c++) {
        struct graph_chain each = *chain;
        int8_t map[256];
        each.bn_add = (int32_t)read_le32(added.data + 4 * (size_t)c);
        rknn_chain_map(&each, map);
        for (int v = INT8_MIN; v <= INT8_MAX; v++) {
            double real =
                ((double)(v - x->zp) * (double)x->scale + (double)constant[c]) / (double)y->scale;
            double stored = fmin(fmax(real + y->zp, INT8_MIN), INT8_MAX);
            if (fabs(stored - map[(uint8_t)v]) > 1)
                return false;
        }
    }
    return true;
}

static bool is_unbounded(const int32_t bounds[2])
{
    return bounds[0] == INT32_MIN && bounds[1] == INT32_MAX;
}

// Whether what the chain does to bytes comes to (x * factor + a number for each channel), which is
// rounded once, behind that.
static bool rounds_once(const struct graph_chain *c)
{
    bool rounded = c->bs[0].shift || c->bs[1].shift || c->bn[0].shift || c->bn[1].shift;
    return !rounded && c->bs[0].factor == c->bs[1].factor && c->bn[0].factor == 1 &&
           c->bn[1].factor == 1 && is_unbounded(c->bounds[0]) && is_unbounded(c->bounds[1]);
}

// A constant of a number for each channel, which no file has; -1: no memory. Tensors move.
static int32_t add_constant(struct rknn_lowering *l, enum tensor_type type, const uint8_t *data,
                            uint32_t channels)
{
    struct graph *g = l->g;
    struct error e;
    if (graph_make_room(g, (uint64_t)g->n_tensors + lower_count_spares(l->f) + 1, &e) < 0)
        return -1;
    struct graph_tensor *t = &g->tensors[g->n_tensors];
    size_t size = channels * tensor_type_size(type);
    *t = (struct graph_tensor){.name = "",
                               .type = type,
                               .n_dims = 1,
                               .dims = {channels},
                               .constant = true,
                               .data = {data, size},
                               .n_elems = channels,
                               .size = size,
                               .arena_offset = GRAPH_NO_OFFSET};
    return (int32_t)g->n_tensors++;
}

// Adds a number to each channel in the chip's integers: a BatchNormalization has them, with a scale
// and a bias for each. What that cannot hold in floats is left to the emulator.
static int take_biases(struct rknn_lowering *l, const struct graph_chain *chain, struct bytes added,
                       struct error *e)
{
    enum { MOST = 1 << 24 };
    uint32_t channels = lower_output(l, 0)->dims[1];
    uint8_t *scales = pool_alloc(&l->g->pool, channels, 2);
    uint8_t *biases = pool_alloc(&l->g->pool, channels, 4);
    int32_t *inputs = pool_alloc(&l->g->pool, 3, sizeof *inputs);
    if (!scales || !biases || !inputs)
        return error_no_memory(e, "biases", channels);
    int64_t factor = chain->bs[0].factor;
    for (uint32_t c = 0; c < channels; c++) {
        int64_t bias = chain->bs_add * factor + (int32_t)read_le32(added.data + 4 * (size_t)c);
        if (llabs(bias) + 128 * llabs(factor) >= MOST)
            return lower_refuse(l, e, unknown);
        write_le16(scales + 2 * (size_t)c, (uint16_t)factor);
        write_le32(biases + 4 * (size_t)c, (uint32_t)bias);
    }
    inputs[0] = l->inputs[0];
    inputs[1] = add_constant(l, TENSOR_INT16, scales, channels);
    inputs[2] = add_constant(l, TENSOR_INT32, biases, channels);
    if (inputs[1] < 0 || inputs[2] < 0)
        return error_no_memory(e, "biases", channels);
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    struct graph_tensor *scale = &l->g->tensors[inputs[1]];
    scale->quantized = true;
    scale->scale = (float)(ldexp(chain->out.factor, -(int)chain->out.shift) * (double)y->scale /
                           (double)x->scale);
    l->out->op = GRAPH_BATCH_NORM;
    l->out->inputs = inputs;
    l->out->n_inputs = 3;
    l->out->norm.integer = true;
    l->out->norm.out = chain->out;
    return 0;
}

// A number for each channel is added by the registers, if that is the tables' number.
static int take_vector(struct rknn_lowering *l, const struct graph_chain *chain, struct bytes added,
                       struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *k = lower_input(l, 1);
    const struct graph_tensor *y = lower_output(l, 0);
    bool each = l->out->op == GRAPH_ADD && chain && !chain->lut && !*l->suffix && k &&
                k->constant && y->n_dims == 4 && k->n_elems == y->dims[1] && k->n_dims == 4 &&
                k->dims[1] == k->n_elems && added.size / 4 >= k->n_elems &&
                x->n_elems == y->n_elems && chain->zp == y->zp && rounds_once(chain);
    cleanup(free_p) float *constant = each ? calloc(k->n_elems, sizeof *constant) : NULL;
    if (each && !constant)
        return error_no_memory(e, "a constant", 0);
    if (each)
        graph_tensor_floats(k, constant);
    return each && adds_the_same(l, chain, added, constant) ? take_biases(l, chain, added, e)
                                                            : lower_refuse(l, e, unknown);
}

// With a constant: by the registers, a table of what becomes of each byte.
static int take_map(struct rknn_lowering *l, uint32_t x, struct error *e)
{
    const struct graph_chain *chain = NULL;
    struct bytes added;
    int8_t *map = pool_alloc(&l->g->pool, 256, sizeof *map);
    int32_t *input = pool_alloc(&l->g->pool, 1, sizeof *input);
    if (!map || !input)
        return error_no_memory(e, "a table", 256);
    int r = rknn_chain_with(l->regs, l->f, l->node, (int32_t[]){l->inputs[x], l->outputs[0]}, l->g,
                            &chain, &added, e);
    if (r == 0 && added.size)
        return take_vector(l, chain, added, e);
    if (r == 0 &&
        (!chain || chain->lut || lower_input(l, x)->n_elems != lower_output(l, 0)->n_elems))
        return lower_refuse(l, e, unknown);
    if (r < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    rknn_chain_map(chain, map);
    *input = l->inputs[x];
    l->out->op = GRAPH_MAP;
    l->out->map = map;
    l->out->inputs = input;
    l->out->n_inputs = 1;
    l->out->n_post = 0;
    return 0;
}

// With one number that the run computes: the node's first task copies it to memory of the chip's
// own, once for each channel, and the others work with that.
static int take_scalar(struct rknn_lowering *l, struct error *e)
{
    int32_t copies = l->node->n_inputs == 3 ? l->node->inputs[2] : -1;
    if (copies < 0 || lower_input(l, 1)->n_elems != 1 || l->node->n_tasks < 2 ||
        !rknn_scalar_copied(l->regs, l->f, l->inputs[1], copies))
        return take_sum(l, l->inputs, e);
    if (rknn_regs_load_rest(l->regs, l->f, l->node, e) < 0)
        return STATUS_MODEL_INVALID;
    return take_sum(l, (const int32_t[]){l->inputs[0], copies}, e);
}

// A square is a product of its base with itself.
static int take_square(struct rknn_lowering *l, struct error *e)
{
    float exponent;
    int32_t *both = pool_alloc(&l->g->pool, 2, sizeof *both);
    if (!both)
        return error_no_memory(e, "a square", 0);
    both[0] = both[1] = l->inputs[0];
    if (*l->suffix || !lower_number(l, 1, &exponent) || exponent != 2)
        return lower_refuse(l, e, unknown);
    l->out->op = GRAPH_MUL;
    l->out->inputs = both;
    return take_sum(l, both, e);
}

// Arithmetic of bytes on the NPU is what its registers say, and nothing else.
static int take_integers(struct rknn_lowering *l, struct error *e)
{
    bool first = lower_is_bytes(lower_input(l, 0)), second = lower_is_bytes(lower_input(l, 1));
    bool known = l->out->op == GRAPH_ADD || l->out->op == GRAPH_MUL;
    if (!lower_has_program(l) || !lower_is_bytes(lower_output(l, 0)) || (!first && !second))
        return 0;
    if (first && second)
        return known ? take_scalar(l, e) : lower_refuse(l, e, unknown);
    return l->out->op == GRAPH_POW && first ? take_square(l, e) : take_map(l, first ? 0 : 1, e);
}

// Whether input i is there for the operator: inputs that nothing fills are the chip's own memory.
static bool is_filled(const struct rknn_lowering *l, uint32_t i)
{
    const struct graph_tensor *t = lower_input(l, i);
    if (!t || t->constant)
        return t && t->data.size;
    for (uint32_t k = 0; k < l->g->n_inputs; k++)
        if (l->g->inputs[k] == (uint32_t)l->inputs[i])
            return true;
    for (uint32_t k = 0; k < l->g->n_nodes; k++)
        for (uint32_t o = 0; o < l->g->nodes[k].n_outputs; o++)
            if (l->g->nodes[k].outputs[o] == l->inputs[i])
                return true;
    return false;
}

// Integers have an exact reference operator, real numbers the fast one, with fused activations.
int lower_arithmetic(struct rknn_lowering *l, struct error *e)
{
    for (uint32_t i = 2; i < l->n_inputs; i++)
        if (is_filled(l, i))
            return lower_refuse(l, e, "it has %u operands, two are known", l->n_inputs);
    int64_t kind = l->row->kind;
    if (kind == REF_MOD && rknn_attr_int(l->node, "fmod", 0))
        kind = REF_FMOD;
    if (!lower_is_integers(lower_output(l, 0)) && kind != REF_FMOD) {
        int r = lower_posts(l, l->suffix, -1, e);
        return r < 0 ? r : take_integers(l, e);
    }
    if (*l->suffix)
        return lower_refuse(l, e, "\"%s\" is not fused into arithmetic of integers", l->suffix);
    return lower_emit_ref(l, REF_OP_BINARY, 2, &kind, 1, e);
}

int lower_two(struct rknn_lowering *l, struct error *e)
{
    bool bytes = lower_is_bytes(lower_input(l, 0)) && lower_is_bytes(lower_output(l, 0));
    return lower_has_program(l) && bytes ? lower_refuse(l, e, unknown)
                                         : lower_posts(l, l->suffix, -1, e);
}

// One by one: nothing is repeated to fill a larger output.
int lower_convert(struct rknn_lowering *l, struct error *e)
{
    uint64_t taken = lower_input(l, 0)->n_elems, given = lower_output(l, 0)->n_elems;
    return taken == given ? 0
                          : lower_refuse(l, e, "of %llu elements it makes %llu",
                                         (unsigned long long)taken, (unsigned long long)given);
}

// The operator's name is the activation.
int lower_unary(struct rknn_lowering *l, struct error *e)
{
    int r = lower_convert(l, e);
    return r < 0 ? r : lower_posts(l, l->node->op, -1, e);
}

// Floats lose their fraction where they become integers.
int lower_cast(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0);
    bool bytes = x->type == TENSOR_INT8 && (!x->quantized || (x->scale == 1 && x->zp == 0));
    if (lower_has_program(l) && (x->type == TENSOR_INT8 || x->type == TENSOR_UINT8) && !bytes)
        return lower_refuse(l, e, "the NPU casts bytes as they are, without a scale");
    if (lower_convert(l, e) < 0)
        return STATUS_MODEL_INVALID;
    if (!lower_is_integers(lower_output(l, 0)))
        return 0;
    return lower_emit_ref(l, REF_OP_CAST, 1, NULL, 0, e);
}

int lower_mat_mul(struct rknn_lowering *l, struct error *e)
{
    (void)e;
    l->out->product.alpha = 1;
    return 0;
}

// The row's kind is the reference operator, which takes no integers.
int lower_ref(struct rknn_lowering *l, struct error *e)
{
    return lower_emit_ref(l, (enum graph_ref_op)l->row->kind, l->row->n_inputs, NULL, 0, e);
}

int lower_ref_binary(struct rknn_lowering *l, struct error *e)
{
    return lower_emit_ref(l, REF_OP_BINARY, 2, &l->row->kind, 1, e);
}

// Some have numbers, with ONNX's names and defaults.
int lower_ref_unary(struct rknn_lowering *l, struct error *e)
{
    static const struct {
        int64_t kind;
        const char *names[2];
        double absent[2];
    } numbers[] = {
        {REF_CELU, {"alpha"}, {1}},
        {REF_IS_INF, {"detect_negative", "detect_positive"}, {1, 1}},
        {REF_SELU, {"alpha", "gamma"}, {1.67326319217681884765625, 1.05070102214813232421875}},
        {REF_SHRINK, {"lambd", "bias"}, {0.5, 0}},
        {REF_THRESHOLDED_RELU, {"alpha"}, {1}},
    };
    int r = lower_emit_ref(l, REF_OP_UNARY, 1, &l->row->kind, 1, e);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; numbers[i].kind == l->row->kind && k < 2 && numbers[i].names[k]; k++)
            l->out->ref.reals[k] =
                (float)rknn_attr_float(l->node, numbers[i].names[k], numbers[i].absent[k]);
    return r;
}
