// Nearly all operators compute each index of the first dimension by itself, whatever there are.
// What is left are shapes that say 1, and axes that are that dimension. Tensors that come of an
// input by such operators are "batched"; the shape of one is not. Operators that are not known to
// keep samples apart are refused.
#include "quant/prepare/quant_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"

struct batching {
    struct quant_model *m;
    struct quant_index x;
    bool *batched; // of each edge
    int64_t batch;
    struct error *e;
};

// ---- operators ----

// That have no axis, or whose windows lie behind the first two dimensions.
static const char *const apart[] = {"Conv",
                                    "ConvTranspose",
                                    "MaxPool",
                                    "AveragePool",
                                    "GlobalAveragePool",
                                    "GlobalMaxPool",
                                    "BatchNormalization",
                                    "InstanceNormalization",
                                    "GroupNormalization",
                                    "LRN",
                                    "Relu",
                                    "LeakyRelu",
                                    "PRelu",
                                    "Elu",
                                    "Selu",
                                    "Celu",
                                    "Sigmoid",
                                    "HardSigmoid",
                                    "HardSwish",
                                    "Tanh",
                                    "Softplus",
                                    "Softsign",
                                    "Mish",
                                    "Gelu",
                                    "Clip",
                                    "Abs",
                                    "Neg",
                                    "Exp",
                                    "Log",
                                    "Sqrt",
                                    "Reciprocal",
                                    "Floor",
                                    "Ceil",
                                    "Round",
                                    "Sign",
                                    "Erf",
                                    "Sin",
                                    "Cos",
                                    "Identity",
                                    "Dropout",
                                    "Cast",
                                    "DepthToSpace",
                                    "SpaceToDepth",
                                    "QuantizeLinear",
                                    "DequantizeLinear",
                                    "Add",
                                    "Sub",
                                    "Mul",
                                    "Div",
                                    "Pow",
                                    "Min",
                                    "Max",
                                    "Sum",
                                    "Where",
                                    "MatMul",
                                    "Resize",
                                    "Upsample",
                                    "Not",
                                    "And",
                                    "Or",
                                    "Equal",
                                    "Greater",
                                    "Less",
                                    "Shape",
                                    "Size",
                                    NULL};
// That have an axis, which must not be the first; and what it is where nothing is said.
static const struct {
    const char *op;
    int64_t axis;
} with_axis[] = {{"Softmax", -1}, {"LogSoftmax", -1}, {"Concat", 0},
                 {"Split", 0},    {"ArgMax", 0},      {"ArgMin", 0},
                 {"Gather", 0},   {"Flatten", 1},     {"LayerNormalization", -1},
                 {"CumSum", 0},   {"TopK", -1}};

// Operators of other domains are none of these.
static bool batch_is_one_of(const Quant__Node *n, const char *const *list)
{
    for (; *list; list++)
        if (quant_is(n, *list))
            return true;
    return false;
}

// By the node's name, so that its exporter can be asked for a model with a batch.
static int batch_refuse(const struct batching *b, const Quant__Node *n, const char *why)
{
    return error_set(b->e, STATUS_MODEL_INVALID,
                     "node %s (%s) cannot take several samples at once: %s", quant_node_name(n),
                     quant_text(n->op_type), why);
}

// Integers of input i, or of an attribute; false: they are computed.
static bool batch_ints(const struct batching *b, const Quant__Node *n, const char *attribute,
                       size_t input, int64_t *ret, size_t *ret_n)
{
    const Quant__Attribute *a = quant_attr(n, attribute);
    if (a) {
        *ret_n = a->n_ints < QUANT_MAX_DIMS ? a->n_ints : QUANT_MAX_DIMS;
        for (size_t i = 0; i < *ret_n; i++)
            ret[i] = a->ints[i];
        return a->n_ints > 0;
    }
    const struct quant_edge *edge = quant_index_find(&b->x, quant_input(n, input));
    return edge && edge->constant &&
           quant_constant_ints(edge->constant, ret, QUANT_MAX_DIMS, ret_n);
}

static const Quant__ValueInfo *batch_find_said(Quant__ValueInfo *const *list, size_t n,
                                               const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(quant_text(list[i]->name), name) == 0)
            return list[i];
    return NULL;
}

// How many dimensions the model says a tensor to have; 0: it does not.
static int64_t batch_rank(const struct batching *b, const char *name)
{
    const Quant__Graph *g = b->m->graph;
    const Quant__ValueInfo *v = batch_find_said(g->value_info, g->n_value_info, name);
    v = v ? v : batch_find_said(g->input, g->n_input, name);
    v = v ? v : batch_find_said(g->output, g->n_output, name);
    bool said = v && v->type && v->type->tensor_type && v->type->tensor_type->shape;
    return said ? (int64_t)v->type->tensor_type->shape->n_dim : 0;
}

// Whether an axis of `tensor`, counted from either end, is another than that of samples. The last
// one always is: tensors of one dimension are no samples.
static int batch_axis(const struct batching *b, const Quant__Node *n, const char *tensor,
                      int64_t axis)
{
    if (axis > 0 || axis == -1)
        return 0;
    int64_t rank = axis ? batch_rank(b, tensor) : 0;
    if (axis == 0 || axis + rank == 0)
        return batch_refuse(b, n, "its axis is the dimension of samples");
    return rank ? 0
                : batch_refuse(b, n,
                               "its axis counts from the end, and how many dimensions there are "
                               "the model does not say");
}

static int batch_axes(const struct batching *b, const Quant__Node *n, const char *all)
{
    int64_t axes[QUANT_MAX_DIMS];
    size_t n_axes;
    if (!batch_ints(b, n, "axes", quant_is(n, "Slice") ? 3 : 1, axes, &n_axes))
        return batch_refuse(b, n, all);
    // Unsqueeze's are of what comes out.
    const char *of = quant_is(n, "Unsqueeze") ? quant_output(n, 0) : quant_input(n, 0);
    int r = 0;
    for (size_t i = 0; i < n_axes && r == 0; i++)
        r = batch_axis(b, n, of, axes[i]);
    return r;
}

// A shape with 1 in front becomes one with the batch there, of this node alone.
static int batch_shape(struct batching *b, Quant__Node *n, size_t input)
{
    int64_t dims[QUANT_MAX_DIMS];
    size_t n_dims;
    const struct quant_edge *edge = quant_index_find(&b->x, quant_input(n, input));
    if (!batch_ints(b, n, "", input, dims, &n_dims) || !n_dims)
        return edge && b->batched[edge - b->x.edges]
                   ? 0 // computed from the tensor's own shape, which has the batch
                   : batch_refuse(b, n, "its shape is computed");
    if (dims[0] == 0 || (dims[0] == -1 && n_dims > 1))
        return 0;
    if (dims[0] != 1)
        return batch_refuse(b, n, "its shape does not begin with one sample");
    const int64_t length = (int64_t)n_dims;
    char *name = quant_index_fresh(&b->x, &b->m->pool, "%s_batch", quant_output(n, 0));
    dims[0] = b->batch;
    if (!name ||
        !quant_model_constant(b->m, name, QUANT_INT64, 1, &length, dims, n_dims * sizeof *dims))
        return error_no_memory(b->e, "the model", 0);
    n->input[input] = name;
    return 0;
}

// Samples stay in front: their order is that of the caller.
static int batch_transpose(const struct batching *b, const Quant__Node *n)
{
    const Quant__Attribute *perm = quant_attr(n, "perm");
    return perm && perm->n_ints && perm->ints[0] == 0
               ? 0
               : batch_refuse(b, n, "it moves the dimension of samples");
}

// Pads come as all begins and then all ends; those of the first dimension would be more samples.
static int batch_pad(const struct batching *b, const Quant__Node *n)
{
    int64_t pads[QUANT_MAX_DIMS];
    size_t n_pads;
    bool known = batch_ints(b, n, "pads", 1, pads, &n_pads) && n_pads % 2 == 0 && n_pads;
    return known && pads[0] == 0 && pads[n_pads / 2] == 0
               ? 0
               : batch_refuse(b, n, "it pads samples, or its pads are computed");
}

// Slice's entry for the dimension of samples; n: it cuts none off there. Without axes entry i is of
// dimension i.
static int batch_slice_entry(const struct batching *b, const Quant__Node *n, size_t n_starts,
                             size_t *ret)
{
    int64_t axes[QUANT_MAX_DIMS];
    size_t n_axes;
    bool none = !quant_attr(n, "axes") && !*quant_input(n, 3);
    *ret = none ? 0 : n_starts;
    if (none)
        return 0;
    if (!batch_ints(b, n, "axes", 3, axes, &n_axes) || n_axes != n_starts)
        return batch_refuse(b, n, "it is not said along which axes");
    for (size_t i = 0; i < n_axes; i++) {
        int64_t rank = axes[i] < -1 ? batch_rank(b, quant_input(n, 0)) : 0;
        if (axes[i] < -1 && !rank)
            return batch_axis(b, n, quant_input(n, 0), axes[i]); // in its words
        if (axes[i] + rank == 0 && axes[i] != -1)
            *ret = i;
    }
    return 0;
}

// Up to all samples, however many: an end of 1 was written for one of them. Ends that are computed
// come of a shape, which has the batch.
static int batch_slice_end(struct batching *b, Quant__Node *n, size_t entry)
{
    int64_t ends[QUANT_MAX_DIMS];
    size_t n_ends;
    const struct quant_edge *edge = quant_index_find(&b->x, quant_input(n, 2));
    const Quant__Attribute *said = quant_attr(n, "ends");
    if (!batch_ints(b, n, "ends", 2, ends, &n_ends) || entry >= n_ends)
        return edge && b->batched[edge - b->x.edges] ? 0
                                                     : batch_refuse(b, n, "its ends are computed");
    if (ends[entry] >= INT32_MAX)
        return 0;
    if (ends[entry] != 1)
        return batch_refuse(b, n, "it cuts samples off");
    ends[entry] = INT64_MAX;
    if (said) {
        said->ints[entry] = INT64_MAX;
        return 0;
    }
    const int64_t length = (int64_t)n_ends;
    char *name = quant_index_fresh(&b->x, &b->m->pool, "%s_batch", quant_output(n, 0));
    if (!name ||
        !quant_model_constant(b->m, name, QUANT_INT64, 1, &length, ends, n_ends * sizeof *ends))
        return error_no_memory(b->e, "the model", 0);
    n->input[2] = name;
    return 0;
}

static int batch_slice(struct batching *b, Quant__Node *n)
{
    int64_t starts[QUANT_MAX_DIMS], steps[QUANT_MAX_DIMS];
    size_t n_starts, n_steps, entry;
    bool known = batch_ints(b, n, "starts", 1, starts, &n_starts);
    if (!known && *quant_input(n, 3))
        return batch_axes(b, n, "it is not said along which axes");
    if (!known)
        return batch_refuse(b, n, "its starts are computed");
    int r = batch_slice_entry(b, n, n_starts, &entry);
    if (r < 0 || entry == n_starts)
        return r;
    bool forward = !*quant_input(n, 4) || (batch_ints(b, n, "", 4, steps, &n_steps) &&
                                           entry < n_steps && steps[entry] == 1);
    return starts[entry] == 0 && forward ? batch_slice_end(b, n, entry)
                                         : batch_refuse(b, n, "it cuts samples off");
}

// A weight that is computed from samples would be of all of them.
static int batch_gemm(const struct batching *b, const Quant__Node *n)
{
    const struct quant_edge *weight = quant_index_find(&b->x, quant_input(n, 1));
    if (quant_attr_int(n, "transA", 0) || !weight || b->batched[weight - b->x.edges])
        return batch_refuse(b, n, "it multiplies samples with each other");
    return 0;
}

// With the first axis in it all that is computed is of all samples together.
static int batch_with_axis(const struct batching *b, const Quant__Node *n, bool *ret)
{
    for (size_t i = 0; i < sizeof with_axis / sizeof *with_axis; i++) {
        if (!quant_is(n, with_axis[i].op))
            continue;
        *ret = true;
        // What moves numbers of a shape (Gather, Concat behind Shape) has one dimension alone.
        return batch_axis(b, n, quant_input(n, 0), quant_attr_int(n, "axis", with_axis[i].axis));
    }
    *ret = false;
    return 0;
}

// What a node has to fulfil to keep samples apart, by its operator. Whatever is not in a list is
// refused: an operator that comes later mixes samples until somebody has looked at it.
static int batch_node(struct batching *b, Quant__Node *n)
{
    bool known = batch_is_one_of(n, apart);
    int r = known ? 0 : batch_with_axis(b, n, &known);
    if (r < 0)
        return r;
    if (quant_is(n, "Resize") && *quant_input(n, 3))
        return batch_shape(b, n, 3);
    if (known)
        return 0;
    if (quant_is(n, "Reshape") || quant_is(n, "Expand"))
        return batch_shape(b, n, 1);
    if (quant_is(n, "Slice"))
        return batch_slice(b, n);
    if (quant_is(n, "Transpose"))
        return batch_transpose(b, n);
    if (quant_is(n, "Pad"))
        return batch_pad(b, n);
    if (quant_is(n, "Gemm"))
        return batch_gemm(b, n);
    if (quant_is(n, "Unsqueeze") || quant_is(n, "Squeeze") ||
        strncmp(quant_text(n->op_type), "Reduce", 6) == 0)
        return batch_axes(b, n, "it is not said along which axes");
    return batch_refuse(b, n, "it is not known to keep them apart");
}

// ---- the graph ----

// What is computed of a shape alone is no sample, but knows how many there are.
static bool batch_is_of_shapes(const struct batching *b, const Quant__Node *n)
{
    for (size_t i = 0; i < n->n_input; i++) {
        const struct quant_edge *in = quant_index_find(&b->x, quant_input(n, i));
        if (in && b->batched[in - b->x.edges] && in->type != QUANT_INT64)
            return false;
    }
    return true;
}

// Shapes' first numbers must stay those of a shape: a constant in front would be the old one.
static int batch_of_shapes(const struct batching *b, const Quant__Node *n)
{
    static const char *const plain[] = {
        "Gather", "Slice", "Concat",   "Unsqueeze", "Squeeze",         "Cast", "Add", "Mul", "Div",
        "Sub",    "Floor", "Identity", "Expand",    "ConstantOfShape", NULL};
    int64_t first[QUANT_MAX_DIMS];
    size_t n_first;
    if (!batch_is_one_of(n, plain))
        return batch_refuse(b, n, "it computes with shapes in a way that is not known");
    if (quant_is(n, "Concat") && batch_ints(b, n, "", 0, first, &n_first) && n_first &&
        first[0] != -1 && first[0] != 0)
        return batch_refuse(b, n, "it makes a shape of a constant number of samples");
    return 0;
}

// Nodes are in order, so it is known what a node's inputs are when it is looked at. Constants and
// what is computed from them alone stay as they are: they are broadcast to all samples.
static int batch_visit(struct batching *b, Quant__Node *n)
{
    bool any = false;
    for (size_t i = 0; i < n->n_input; i++) {
        const struct quant_edge *in = quant_index_find(&b->x, quant_input(n, i));
        any |= in && b->batched[in - b->x.edges];
    }
    if (!any)
        return 0;
    for (size_t i = 0; i < n->n_output; i++)
        if (*quant_output(n, i))
            b->batched[quant_index_find(&b->x, quant_output(n, i)) - b->x.edges] = true;
    return batch_is_of_shapes(b, n) ? batch_of_shapes(b, n) : batch_node(b, n);
}

// The first dimension of an input or output. What the model says of tensors in between is left out.
static int batch_end(const struct batching *b, const Quant__ValueInfo *v, const char *kind)
{
    Quant__Shape *shape = v->type && v->type->tensor_type ? v->type->tensor_type->shape : NULL;
    Quant__Dimension *first = shape && shape->n_dim > 1 ? shape->dim[0] : NULL;
    if (!first || (first->has_dim_value && first->dim_value != 1))
        return error_set(b->e, STATUS_MODEL_INVALID,
                         "%s %s has no first dimension of 1 sample, which could become %lld", kind,
                         quant_text(v->name), (long long)b->batch);
    first->has_dim_value = true;
    first->dim_value = b->batch;
    first->dim_param = NULL;
    return 0;
}

// Ends come first and last, so that a model which is refused has been looked at from its inputs on.
static int batch_all(struct batching *b)
{
    Quant__Graph *g = b->m->graph;
    int r = 0;
    for (size_t i = 0; i < g->n_input && r == 0; i++) {
        const struct quant_edge *edge = quant_index_find(&b->x, quant_text(g->input[i]->name));
        if (!edge || !edge->is_input)
            continue;
        b->batched[edge - b->x.edges] = true;
        r = batch_end(b, g->input[i], "input");
    }
    for (size_t i = 0; i < g->n_node && r == 0; i++)
        r = batch_visit(b, g->node[i]);
    for (size_t i = 0; i < g->n_output && r == 0; i++)
        r = batch_end(b, g->output[i], "output");
    g->n_value_info = 0;
    return r;
}

int quant_batch(struct quant_model *m, int64_t batch, struct error *e)
{
    struct batching b = {.m = m, .batch = batch, .e = e};
    if (m->has_subgraphs)
        return error_set(e, STATUS_MODEL_INVALID,
                         "it has subgraphs (If, Loop, Scan), in which samples may be mixed: it "
                         "cannot take several at once");
    int r = quant_index_make(&b.x, m, e);
    if (r == 0 && !(b.batched = calloc((size_t)b.x.n + 1, sizeof *b.batched)))
        r = error_no_memory(e, "the model", b.x.n);
    if (r == 0)
        r = batch_all(&b);
    free(b.batched);
    quant_index_done(&b.x);
    return r;
}
