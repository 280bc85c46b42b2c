// Operators of .rknn files that move elements: parts, joins, orders, lookups.
#include "npu/model/rknn/lower/rknn_lower.h"

// What the operator does follows from the shapes and types of its tensors, or is a user's.
int lower_plain(struct rknn_lowering *l, struct error *e)
{
    (void)l, (void)e;
    return 0;
}

// The file lists scratch memory of the chip behind the real inputs, so inputs are taken until they
// fill the output.
int lower_concat(struct rknn_lowering *l, struct error *e)
{
    int r = lower_axis(l, INT64_MIN / 2, e);
    if (r < 0)
        return r;
    // Inputs that the output has no room for are the chip's working memory.
    const struct graph_tensor *y = lower_output(l, 0);
    uint64_t filled = 0;
    uint32_t n = 0, axis = (uint32_t)l->out->axis;
    while (n < l->n_inputs && filled < y->dims[axis]) {
        const struct graph_tensor *x = lower_input(l, n++);
        filled += x && x->n_dims > axis ? x->dims[axis] : UINT32_MAX;
    }
    if (y->n_dims <= axis || filled != y->dims[axis])
        return lower_refuse(l, e, "its inputs do not add up to its output");
    l->out->n_inputs = n;
    return 0;
}

// perm must name each dimension once. Without it a board's CPU reverses them, as ONNX does.
int lower_transpose(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0);
    int64_t perm[GRAPH_MAX_DIMS];
    uint32_t n = rknn_attr_ints(l->node, "perm", perm, GRAPH_MAX_DIMS), seen = 0;
    if (!n && l->out->on_cpu && !rknn_attr_has(l->node, "perm"))
        for (n = 0; n < x->n_dims; n++)
            perm[n] = x->n_dims - 1 - n;
    for (uint32_t i = 0; i < n; i++) {
        if (perm[i] < 0 || perm[i] >= n)
            return lower_refuse(l, e, "its perm is no permutation");
        seen |= 1u << perm[i];
        l->out->perm[i] = (uint32_t)perm[i];
    }
    if (n != x->n_dims || seen != (1u << n) - 1)
        return lower_refuse(l, e, "its perm is no permutation of %u dimensions", x->n_dims);
    return 0;
}

// Inputs: data, starts, ends, axes, steps. The ends are not needed, as the output's shape is known.
// Starts are counted from the end when negative, and clamped.
int lower_slice(struct rknn_lowering *l, struct error *e)
{
    int64_t starts[2 * GRAPH_MAX_DIMS], axes[2 * GRAPH_MAX_DIMS], steps[2 * GRAPH_MAX_DIMS];
    uint32_t n, n_axes, n_steps;
    if (lower_ints(l, 1, starts, &n, e) < 0 || lower_ints(l, 3, axes, &n_axes, e) < 0 ||
        lower_ints(l, 4, steps, &n_steps, e) < 0)
        return STATUS_MODEL_INVALID;
    const struct graph_tensor *x = lower_input(l, 0);
    if ((n_axes && n_axes != n) || (n_steps && n_steps != n) || n > x->n_dims)
        return lower_refuse(l, e, "starts, axes and steps do not fit together");
    for (uint32_t i = 0; i < x->n_dims; i++)
        l->out->slice.step[i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t axis = n_axes ? axes[i] : i, step = n_steps ? steps[i] : 1;
        axis += axis < 0 ? x->n_dims : 0;
        if (axis < 0 || axis >= x->n_dims || step == 0 || step > INT32_MAX || step < -INT32_MAX)
            return lower_refuse(l, e, "axis or step %u is out of range", i);
        int64_t size = x->dims[axis], start = starts[i];
        start = start < -size ? -size : start > size ? size : start;
        start += start < 0 ? size : 0;
        l->out->slice.step[axis] = step;
        l->out->slice.start[axis] = step < 0 && start == size ? size - 1 : start;
    }
    l->out->n_inputs = 1;
    return 0;
}

// Inputs: data, pads (all that come first, then all that come last), value, axes.
int lower_pad(struct rknn_lowering *l, struct error *e)
{
    int64_t pads[2 * GRAPH_MAX_DIMS];
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    uint32_t n, mode;
    if (lower_ints(l, 1, pads, &n, e) < 0)
        return STATUS_MODEL_INVALID;
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    if (y->n_dims != x->n_dims)
        return lower_refuse(l, e, "its input and output differ in dimensions");
    if (n != 2 * x->n_dims || lower_input(l, 3))
        return lower_refuse(l, e, "%u pads for %u dimensions%s", n, x->n_dims,
                            lower_input(l, 3) ? ", some of which it names" : "");
    for (uint32_t i = 0; i < x->n_dims; i++) {
        int64_t end = pads[x->n_dims + i];
        if (pads[i] < 0 || pads[i] > UINT32_MAX || end < 0 || end > UINT32_MAX)
            return lower_refuse(l, e, "pads of %lld and %lld are out of range", (long long)pads[i],
                                (long long)end);
        if (pads[i] + x->dims[i] + end != y->dims[i])
            return lower_refuse(l, e, "its pads do not lead from %u to %u in dimension %u",
                                x->dims[i], y->dims[i], i);
        l->out->pad.begin[i] = (uint32_t)pads[i];
    }
    if (lower_pick(l, "mode", "constant", modes, 4, &mode, e) < 0)
        return STATUS_MODEL_INVALID;
    l->out->pad.mode = mode;
    if (lower_input(l, 2) && !lower_number(l, 2, &l->out->pad.value))
        return lower_refuse(l, e, "its padding value is not a constant");
    l->out->n_inputs = 1;
    return 0;
}

// Of lines of a constant.
static int lower_gather_from_table(struct rknn_lowering *l, struct error *e)
{
    return lower_emit_ref(l, REF_OP_GATHER, 2, (int64_t[]){l->out->axis}, 1, e);
}

int lower_gather(struct rknn_lowering *l, struct error *e)
{
    int r = lower_axis(l, 0, e);
    bool table = r == 0 && lower_input(l, 0)->constant && l->out->op == GRAPH_GATHER;
    return table ? lower_gather_from_table(l, e) : r;
}

// What the input is seen as, in the output's order after `perm`: blocks of b x b pixels, and
// channels in front of the block's position (CRD) or behind it.
static bool space_divide(const struct graph_tensor *flat, const struct graph_tensor *deep,
                         int64_t b, bool to_depth, bool channel_first, struct graph_node *ret)
{
    static const uint32_t back[] = {0, 3, 5, 1, 2, 4}, dcr[] = {0, 3, 4, 1, 5, 2},
                          crd[] = {0, 1, 4, 2, 5, 3};
    if (flat->n_dims != 4 || deep->n_dims != 4 || b < 1 || b > UINT16_MAX)
        return false;
    uint32_t block = (uint32_t)b, n = flat->dims[0], c = flat->dims[1], h = deep->dims[2],
             w = deep->dims[3];
    if (deep->dims[0] != n || (uint64_t)c * block * block != deep->dims[1] ||
        (uint64_t)h * block != flat->dims[2] || (uint64_t)w * block != flat->dims[3])
        return false;
    uint32_t of_flat[] = {n, c, h, block, w, block};
    uint32_t of_deep[] = {n, channel_first ? c : block, block, channel_first ? block : c, h, w};
    ret->n_apart = 6;
    memcpy(ret->apart, to_depth ? of_flat : of_deep, sizeof of_flat);
    memcpy(ret->perm, to_depth ? back : channel_first ? crd : dcr, sizeof back);
    return true;
}

// A reshape, a transposition and a reshape, as one copy.
int lower_space(struct rknn_lowering *l, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0), *y = lower_output(l, 0);
    bool to_depth = l->row->kind, channel_first = false;
    char mode[8];
    if (!to_depth) {
        rknn_attr_text(l->node, "mode", "DCR", mode, sizeof mode);
        channel_first = strcmp(mode, "CRD") == 0;
        if (!channel_first && strcmp(mode, "DCR") != 0)
            return lower_refuse(l, e, "mode \"%s\" is not known", mode);
    }
    int64_t block = rknn_attr_int(l->node, "blocksize", 0);
    if (!space_divide(to_depth ? x : y, to_depth ? y : x, block, to_depth, channel_first, l->out))
        return lower_refuse(l, e, "its input and its output do not fit its blocks");
    l->out->n_inputs = 1;
    return 0;
}
