// Operators of .rknn files that work along an axis, or reduce some.
#include "npu/model/rknn/lower/rknn_lower.h"

// The row's kind is the axis where the file has none.
int lower_along(struct rknn_lowering *l, struct error *e)
{
    return lower_axis(l, l->row->kind, e);
}

// The row's kind: 1 for the least. The kernel returns the first of equal values, and the greatest.
int lower_arg_reduce(struct rknn_lowering *l, struct error *e)
{
    int64_t least = l->row->kind, last = rknn_attr_int(l->node, "select_last_index", 0) != 0;
    if (last && !l->out->on_cpu)
        return lower_refuse(l, e, "select_last_index is not known of the NPU");
    int r = lower_axis(l, 0, e);
    if (r < 0 || (!least && !last))
        return r;
    return lower_emit_ref(l, REF_OP_ARG_REDUCE, 1, (int64_t[]){l->out->axis, least, last}, 3, e);
}

// K follows from the output's shape.
int lower_top_k(struct rknn_lowering *l, struct error *e)
{
    l->out->largest = rknn_attr_int(l->node, "largest", 1) != 0;
    return lower_axis(l, -1, e);
}

// Whether all dimensions after the axis are 1.
static bool is_innermost(const struct graph_tensor *t, int32_t axis)
{
    for (uint32_t i = (uint32_t)axis + 1; i < t->n_dims; i++)
        if (t->dims[i] != 1)
            return false;
    return true;
}

// Softmax of ONNX 11: of everything from the axis on. The NPU knows no such thing, and takes the
// axis alone.
int lower_softmax(struct rknn_lowering *l, struct error *e)
{
    int r = lower_axis(l, 1, e);
    if (r < 0)
        return r;
    if (is_innermost(lower_input(l, 0), l->out->axis) || !l->out->on_cpu)
        return 0;
    return lower_emit_ref(l, REF_OP_SOFTMAX, 1, (int64_t[]){l->out->axis, 1, 0}, 3, e);
}

// Operator sets 11 and 13 agree where nothing follows the axis; elsewhere the file does not say
// which is meant.
int lower_log_softmax(struct rknn_lowering *l, struct error *e)
{
    int r = lower_axis(l, -1, e);
    if (r < 0)
        return r;
    if (!is_innermost(lower_input(l, 0), l->out->axis))
        return lower_refuse(l, e, "whether it sums over more than its axis is not known");
    return lower_emit_ref(l, REF_OP_SOFTMAX, 1, (int64_t[]){l->out->axis, 0, 1}, 3, e);
}

int lower_hardmax(struct rknn_lowering *l, struct error *e)
{
    int r = lower_axis(l, -1, e);
    if (r < 0)
        return r;
    return lower_emit_ref(l, REF_OP_HARDMAX, 1, (int64_t[]){l->out->axis, 0}, 2, e);
}

// ---- reductions ----

// The reduced dimensions as bits. With keepdims they are those that the output has as 1; without,
// the file must name them, by attribute or by input.
static int find_axes(struct rknn_lowering *l, uint32_t *ret, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    int64_t axes[2 * GRAPH_MAX_DIMS];
    *ret = 0;
    for (uint32_t i = 0; x->n_dims == y->n_dims && i < x->n_dims; i++)
        *ret |= (uint32_t)(x->dims[i] != y->dims[i] || x->dims[i] == 1) << i;
    if (x->n_dims == y->n_dims)
        return 0;
    uint32_t n = rknn_attr_ints(l->node, "axes", axes, GRAPH_MAX_DIMS);
    if (!n && lower_ints(l, 1, axes, &n, e) < 0)
        return STATUS_MODEL_INVALID;
    for (uint32_t i = 0; i < n; i++) {
        int64_t axis = axes[i] + (axes[i] < 0 ? x->n_dims : 0);
        if (axis < 0 || axis >= x->n_dims)
            return lower_refuse(l, e, "axis %lld is out of range", (long long)axes[i]);
        *ret |= 1u << axis;
    }
    return n ? 0 : lower_refuse(l, e, "the file does not say what it reduces");
}

int lower_reduction(struct rknn_lowering *l, struct error *e)
{
    uint32_t axes, n = 1;
    int64_t ints[GRAPH_MAX_DIMS + 1] = {l->row->kind};
    int r = find_axes(l, &axes, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < GRAPH_MAX_DIMS; i++)
        if (axes >> i & 1)
            ints[n++] = i;
    // A list of no axes would stand for all.
    return n == 1 ? lower_refuse(l, e, "it reduces nothing")
                  : lower_emit_ref(l, REF_OP_REDUCE, 1, ints, n, e);
}

int lower_mean(struct rknn_lowering *l, struct error *e)
{
    if (lower_is_integers(lower_output(l, 0)))
        return lower_reduction(l, e);
    return find_axes(l, &l->out->axes, e);
}
