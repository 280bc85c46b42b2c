// Operators of .rknn files that compute with values: arithmetic, comparisons, casts, products.
#include "npu/model/rknn/lower/rknn_lower.h"

// Integers have an exact reference operator, real numbers the fast one, with fused activations.
int lower_arithmetic(struct rknn_lowering *l, struct error *e)
{
    int64_t kind = l->row->kind;
    if (kind == REF_MOD && rknn_attr_int(l->node, "fmod", 0))
        kind = REF_FMOD;
    if (!lower_is_integers(lower_output(l, 0)) && kind != REF_FMOD)
        return lower_posts(l, l->suffix, -1, e);
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

int lower_ref_unary(struct rknn_lowering *l, struct error *e)
{
    return lower_emit_ref(l, REF_OP_UNARY, 1, &l->row->kind, 1, e);
}
