// What lowering functions ask of a node's operands and attributes, and the node that they make of
// it where a reference operator computes it.
#include "npu/model/rknn/lower/rknn_lower.h"

int lower_inputs(struct rknn_lowering *l, uint32_t n, struct error *e)
{
    if (l->n_inputs < n)
        return lower_refuse(l, e, "it has %u inputs, %u are expected", l->n_inputs, n);
    for (uint32_t i = 0; i < n; i++)
        if (!lower_input(l, i))
            return lower_refuse(l, e, "its input %u is missing", i);
    l->out->n_inputs = n;
    return 0;
}

bool lower_number(const struct rknn_lowering *l, uint32_t input, float *ret)
{
    const struct graph_tensor *t = lower_input(l, input);
    if (!t || !t->constant || t->n_elems != 1 || t->unpack)
        return false;
    graph_tensor_floats(t, ret);
    return true;
}

// INT64_MIN / 2 as `absent` makes a missing axis invalid without overflowing here.
int lower_axis(struct rknn_lowering *l, int64_t absent, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0);
    int64_t axis = rknn_attr_int(l->node, "axis", absent);
    axis += axis < 0 ? x->n_dims : 0;
    if (axis < 0 || axis >= x->n_dims)
        return lower_refuse(l, e, "it has no valid axis");
    l->out->axis = (int32_t)axis;
    return 0;
}

int lower_ints(struct rknn_lowering *l, uint32_t input, int64_t *values, uint32_t *n,
               struct error *e)
{
    const struct graph_tensor *t = lower_input(l, input);
    if (!t) {
        *n = 0;
        return 0;
    }
    if (graph_tensor_ints(t, values, 2 * GRAPH_MAX_DIMS, n, e) < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    return 0;
}

// The place of a text attribute's value among `names`; refuses others.
int lower_pick(const struct rknn_lowering *l, const char *attr, const char *absent,
               const char *const *names, uint32_t n, uint32_t *ret, struct error *e)
{
    char text[40];
    rknn_attr_text(l->node, attr, absent, text, sizeof text);
    for (*ret = 0; *ret < n; ++*ret)
        if (strcmp(names[*ret], text) == 0)
            return 0;
    return lower_refuse(l, e, "%s \"%s\" is not supported", attr, text);
}

bool lower_is_integers(const struct graph_tensor *t)
{
    return !t->quantized && t->type != TENSOR_FLOAT32 && t->type != TENSOR_FLOAT16;
}

bool lower_is_bytes(const struct graph_tensor *t)
{
    return t && t->type == TENSOR_INT8 && t->quantized && !t->constant;
}

// Makes the node a reference operator of its first n_in inputs; `ints` are copied.
int lower_emit_ref(struct rknn_lowering *l, enum graph_ref_op op, uint32_t n_in,
                   const int64_t *ints, uint32_t n_ints, struct error *e)
{
    int64_t *own = pool_alloc(&l->g->pool, n_ints, sizeof *own);
    if (!own)
        return error_no_memory(e, "a node", n_ints * sizeof *own);
    for (uint32_t i = 0; i < n_ints; i++)
        own[i] = ints[i];
    l->out->op = GRAPH_REF;
    l->out->n_inputs = n_in;
    l->out->ref.op = op;
    l->out->ref.ints = own;
    l->out->ref.n_ints = n_ints;
    l->out->ref.dequantize = true;
    return 0;
}
