// Outputs of Split and TopK that no node reads. Files leave them out (index -1), while the
// executor's operators compute all outputs. This adds tensors for them at the end of the graph's
// list; their shapes follow from the other outputs and the attributes.
#include "npu/model/rknn/lower/rknn_lower.h"

static bool may_leave_out(const struct rknn_node *n)
{
    return strcmp(n->op, "Split") == 0 || strcmp(n->op, "TopK") == 0;
}

// How many such tensors there will be: the graph's list is allocated once, with room for them.
uint32_t lower_count_spares(const struct rknn_file *f)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        for (uint32_t k = 0; may_leave_out(&f->nodes[i]) && k < f->nodes[i].n_outputs; k++)
            count += f->nodes[i].outputs[k] < 0;
    return count;
}

// The size on the axis that the parts which are there leave over.
static int64_t size_left(const struct rknn_lowering *l, uint32_t axis)
{
    int64_t left = lower_input(l, 0)->dims[axis];
    for (uint32_t i = 0; i < l->node->n_outputs; i++) {
        const struct graph_tensor *part = lower_output(l, i);
        left -= part && part->n_dims > axis ? part->dims[axis] : 0;
    }
    return left;
}

// The size on the axis of part i of a Split: from the attribute, or, when only one part is missing,
// what is left. 0: the file does not say.
static int64_t part_size(struct rknn_lowering *l, uint32_t i, uint32_t axis)
{
    enum { MAX_PARTS = 256 };
    int64_t sizes[MAX_PARTS];
    uint32_t n = rknn_attr_ints(l->node, "split", sizes, MAX_PARTS), missing = 0;
    if (n == l->node->n_outputs)
        return sizes[i];
    for (uint32_t k = 0; k < l->node->n_outputs; k++)
        missing += !lower_output(l, k);
    return missing == 1 ? size_left(l, axis) : 0;
}

// A part of a Split is like its input but for the axis.
static int shape_part(struct rknn_lowering *l, uint32_t i, struct graph_tensor *t, struct error *e)
{
    const struct graph_tensor *x = lower_input(l, 0);
    if (!x)
        return lower_inputs(l, 1, e);
    int r = lower_axis(l, 0, e);
    if (r < 0)
        return r;
    uint32_t axis = (uint32_t)l->out->axis;
    int64_t size = part_size(l, i, axis);
    if (size < 1 || size > x->dims[axis])
        return lower_refuse(l, e, "part %u is missing, and the file does not say its size", i);
    *t = *x;
    t->dims[axis] = (uint32_t)size;
    return 0;
}

// TopK's two outputs, values (0) and indices (1), have one shape, so the other output gives it.
// Values have the input's type, indices are int64.
static int shape_top(struct rknn_lowering *l, uint32_t i, struct graph_tensor *t, struct error *e)
{
    const struct graph_tensor *other = lower_output(l, 1 - i), *x = lower_input(l, 0);
    if (!x || !other)
        return lower_refuse(l, e, "its input or both outputs are missing");
    *t = *x;
    memcpy(t->dims, other->dims, sizeof t->dims);
    t->n_dims = other->n_dims;
    t->channels_last = other->channels_last;
    t->type = i == 0 ? x->type : TENSOR_INT64;
    t->quantized = x->quantized && i == 0;
    return 0;
}

// Adds the tensor of output i. The copied description of the input is cleared of all that is tied
// to a place: data, packing, strides, arena.
static int add_spare(struct rknn_lowering *l, uint32_t i, int32_t *ret, struct error *e)
{
    struct graph *g = l->g;
    struct graph_tensor *t = &g->tensors[g->n_tensors];
    bool split = strcmp(l->node->op, "Split") == 0;
    int r = !split && i > 1 ? lower_refuse(l, e, "it has %u outputs", l->node->n_outputs)
            : split         ? shape_part(l, i, t, e)
                            : shape_top(l, i, t, e);
    if (r < 0)
        return r;
    t->name = l->node->name;
    t->constant = false;
    t->data = (struct bytes){0};
    t->unpack = NULL;
    t->stride_align = 0;
    t->arena_offset = GRAPH_NO_OFFSET;
    *ret = (int32_t)g->n_tensors++;
    return graph_tensor_measure(t, e);
}

// l->outputs is replaced by a copy in the pool: the file's own array stays as it is.
int lower_spares(struct rknn_lowering *l, struct error *e)
{
    const struct rknn_node *n = l->node;
    if (!may_leave_out(n) || !n->n_outputs)
        return 0;
    int32_t *outputs = pool_alloc(&l->g->pool, n->n_outputs, sizeof *outputs);
    if (!outputs)
        return error_no_memory(e, "a node", n->n_outputs * sizeof *outputs);
    memcpy(outputs, n->outputs, n->n_outputs * sizeof *outputs);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (outputs[i] < 0 && add_spare(l, i, &outputs[i], e) < 0)
            return STATUS_MODEL_INVALID;
    l->outputs = outputs;
    return 0;
}
