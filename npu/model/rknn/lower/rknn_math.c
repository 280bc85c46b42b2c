// Operators of .rknn files that compute with values: arithmetic, comparisons, casts, products.
#include "npu/model/rknn/lower/rknn_lower.h"
#include "npu/model/rknn/regs/rknn_sum.h"

// Integers have an exact reference operator, real numbers the fast one, with fused activations.
static bool is_stored_number(const struct graph_tensor *t)
{
    return t && t->type == TENSOR_INT8 && t->quantized && !t->constant;
}

// An Add or a Mul of quantized numbers as its registers have it.
static int take_sum(struct rknn_lowering *l, struct error *e)
{
    struct graph_sum found, *sum;
    if ((l->out->op != GRAPH_ADD && l->out->op != GRAPH_MUL) ||
        !is_stored_number(lower_input(l, 0)) || !is_stored_number(lower_input(l, 1)) ||
        !is_stored_number(lower_output(l, 0)) || !rknn_sum_read(l->regs, l->f, l->inputs, &found))
        return 0;
    if (found.product != (l->out->op == GRAPH_MUL))
        return lower_refuse(l, e, "its registers %s", found.product ? "multiply" : "add");
    sum = pool_alloc(&l->g->pool, 1, sizeof *sum);
    if (!sum)
        return error_no_memory(e, "a sum", sizeof *sum);
    *sum = found;
    l->out->sum = sum;
    return 0;
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
        return r < 0 ? r : take_sum(l, e);
    }
    if (*l->suffix)
        return lower_refuse(l, e, "\"%s\" is not fused into arithmetic of integers", l->suffix);
    return lower_emit_ref(l, REF_OP_BINARY, 2, &kind, 1, e);
}

int lower_two(struct rknn_lowering *l, struct error *e)
{
    return lower_posts(l, l->suffix, -1, e);
}

// The operator's name is the activation.
int lower_unary(struct rknn_lowering *l, struct error *e)
{
    return lower_posts(l, l->node->op, -1, e);
}

// Floats lose their fraction where they become integers.
int lower_cast(struct rknn_lowering *l, struct error *e)
{
    if (!lower_is_integers(lower_output(l, 0)))
        return 0;
    return lower_emit_ref(l, REF_OP_CAST, 1, NULL, 0, e);
}

// A third input is added to the product, or multiplied with it (c_type "mul").
int lower_ex_mat_mul(struct rknn_lowering *l, struct error *e)
{
    char form[16];
    rknn_attr_text(l->node, "c_type", "add", form, sizeof form);
    l->out->multiply = strcmp(form, "mul") == 0;
    if (!l->out->multiply && strcmp(form, "add") != 0)
        return lower_refuse(l, e, "c_type \"%s\" is not known", form);
    bool third = l->out->multiply || lower_input(l, 2);
    return third ? lower_inputs(l, 3, e) : 0;
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
