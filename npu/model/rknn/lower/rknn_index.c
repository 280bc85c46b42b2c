// Operators of .rknn files that pick or place elements by number. The shapes of their outputs are
// the file's; the reference operators check that they fit.
#include "npu/model/rknn/lower/rknn_lower.h"

int lower_gather_nd(struct rknn_lowering *l, struct error *e)
{
    int64_t batch = rknn_attr_int(l->node, "batch_dims", 0);
    if (batch < 0)
        return lower_refuse(l, e, "batch_dims %lld is out of range", (long long)batch);
    return lower_emit_ref(l, REF_OP_GATHER_ND, 2, &batch, 1, e);
}

// What happens to an element that is hit: replaced, added to, multiplied. The row's kind is the
// reference operator; one of them has no axis.
int lower_scatter(struct rknn_lowering *l, struct error *e)
{
    static const char *const reductions[] = {"none", "add", "mul"};
    enum graph_ref_op op = (enum graph_ref_op)l->row->kind;
    uint32_t reduction;
    int r = lower_pick(l, "reduction", "none", reductions, 3, &reduction, e);
    if (r == 0 && op == REF_OP_SCATTER_ELEMENTS)
        r = lower_axis(l, 0, e);
    return r < 0 ? r : lower_emit_ref(l, op, 3, (int64_t[]){l->out->axis, reduction}, 2, e);
}

// An integer of a constant, which may be left out.
static int one_number(struct rknn_lowering *l, uint32_t input, int64_t absent, int64_t *ret,
                      struct error *e)
{
    int64_t values[2 * GRAPH_MAX_DIMS];
    uint32_t n;
    int r = lower_ints(l, input, values, &n, e);
    if (r == 0 && n > 1)
        return lower_refuse(l, e, "its input %u holds %u numbers, one is expected", input, n);
    *ret = r == 0 && n ? values[0] : absent;
    return r;
}

// Keeps the upper or the lower triangle, from the k-th diagonal on.
int lower_trilu(struct rknn_lowering *l, struct error *e)
{
    int64_t k, upper = rknn_attr_int(l->node, "upper", 1);
    int r = one_number(l, 1, 0, &k, e);
    if (r == 0 && (k > INT32_MAX || k < INT32_MIN))
        return lower_refuse(l, e, "diagonal %lld is out of range", (long long)k);
    return r < 0 ? r : lower_emit_ref(l, REF_OP_TRILU, 1, (int64_t[]){upper, k}, 2, e);
}

int lower_cum_sum(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0);
    int64_t axis;
    int r = one_number(l, 1, 0, &axis, e);
    if (r < 0)
        return r;
    axis += axis < 0 ? x->n_dims : 0;
    if (axis < 0 || axis >= x->n_dims)
        return lower_refuse(l, e, "it has no valid axis");
    int64_t exclusive = rknn_attr_int(l->node, "exclusive", 0) != 0;
    int64_t reverse = rknn_attr_int(l->node, "reverse", 0) != 0;
    return lower_emit_ref(l, REF_OP_CUM_SUM, 1, (int64_t[]){axis, exclusive, reverse}, 3, e);
}

// Inputs: places, depth, the two values. The output has one dimension more, which is the depth.
int lower_one_hot(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    int64_t axis = rknn_attr_int(l->node, "axis", -1);
    axis += axis < 0 ? (int64_t)x->n_dims + 1 : 0;
    if (axis < 0 || axis > x->n_dims || y->n_dims != x->n_dims + 1)
        return lower_refuse(l, e, "it has no valid axis");
    return lower_emit_ref(l, REF_OP_ONE_HOT, 3, &axis, 1, e);
}
