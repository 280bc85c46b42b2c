// From operator sets 7 to 12 to 13. What changed in between, by the operators' own histories:
// attributes that became inputs (Clip, Pad, Slice, Split, Squeeze, Unsqueeze, ReduceSum, TopK,
// Upsample), Softmax's axis, Dropout's ratio, BatchNormalization's `spatial`.
#include "quant/prepare/quant_opset.h"

#include <float.h>
#include <string.h>

#include "quant/model/quant_index.h"

#define OLDEST 7

// Operators that compute the same in all of 7 to 13 with the same inputs and attributes.
static const char *const same_as_ever[] = {"Abs",
                                           "Acos",
                                           "Acosh",
                                           "Add",
                                           "And",
                                           "ArgMax",
                                           "ArgMin",
                                           "Asin",
                                           "Asinh",
                                           "Atan",
                                           "Atanh",
                                           "AveragePool",
                                           "BitShift",
                                           "Cast",
                                           "Ceil",
                                           "Celu",
                                           "Compress",
                                           "Concat",
                                           "ConcatFromSequence",
                                           "Constant",
                                           "ConstantOfShape",
                                           "Conv",
                                           "ConvTranspose",
                                           "Cos",
                                           "Cosh",
                                           "CumSum",
                                           "DepthToSpace",
                                           "Det",
                                           "Div",
                                           "Einsum",
                                           "Elu",
                                           "Equal",
                                           "Erf",
                                           "Exp",
                                           "Expand",
                                           "EyeLike",
                                           "Flatten",
                                           "Floor",
                                           "GRU",
                                           "Gather",
                                           "GatherElements",
                                           "GatherND",
                                           "Gemm",
                                           "GlobalAveragePool",
                                           "GlobalLpPool",
                                           "GlobalMaxPool",
                                           "Greater",
                                           "GreaterOrEqual",
                                           "HardSigmoid",
                                           "Identity",
                                           "InstanceNormalization",
                                           "IsInf",
                                           "IsNaN",
                                           "LRN",
                                           "LSTM",
                                           "LeakyRelu",
                                           "Less",
                                           "LessOrEqual",
                                           "Log",
                                           "LpNormalization",
                                           "LpPool",
                                           "MatMul",
                                           "Max",
                                           "MaxPool",
                                           "MaxRoiPool",
                                           "MaxUnpool",
                                           "Mean",
                                           "MeanVarianceNormalization",
                                           "Min",
                                           "Mod",
                                           "Mul",
                                           "Neg",
                                           "NonMaxSuppression",
                                           "NonZero",
                                           "Not",
                                           "OneHot",
                                           "Or",
                                           "PRelu",
                                           "Pow",
                                           "RNN",
                                           "Range",
                                           "Reciprocal",
                                           "ReduceL1",
                                           "ReduceL2",
                                           "ReduceLogSum",
                                           "ReduceLogSumExp",
                                           "ReduceMax",
                                           "ReduceMean",
                                           "ReduceMin",
                                           "ReduceProd",
                                           "ReduceSumSquare",
                                           "Relu",
                                           "Reshape",
                                           "ReverseSequence",
                                           "RoiAlign",
                                           "Round",
                                           "ScatterElements",
                                           "ScatterND",
                                           "Selu",
                                           "SequenceAt",
                                           "SequenceConstruct",
                                           "SequenceEmpty",
                                           "SequenceErase",
                                           "SequenceInsert",
                                           "SequenceLength",
                                           "Shape",
                                           "Shrink",
                                           "Sigmoid",
                                           "Sign",
                                           "Sin",
                                           "Sinh",
                                           "Size",
                                           "Softplus",
                                           "Softsign",
                                           "SpaceToDepth",
                                           "SplitToSequence",
                                           "Sqrt",
                                           "Sub",
                                           "Sum",
                                           "Tan",
                                           "Tanh",
                                           "ThresholdedRelu",
                                           "Tile",
                                           "Transpose",
                                           "Unique",
                                           "Where",
                                           "Xor",
                                           NULL};

struct raise {
    struct quant_model *m;
    int64_t from;
    struct quant_index x; // of the model as it came
    struct quant_node_list nodes;
    size_t n_made; // names
    struct error *e;
};

static int raise_no_memory(const struct raise *r)
{
    return error_no_memory(r->e, "the model", 0);
}

// A constant with a name of its own; NULL: no memory.
static const char *raise_constant(struct raise *r, enum quant_type type, size_t n_dims, size_t n,
                                  const void *data)
{
    int64_t dim = (int64_t)n;
    char *name = quant_index_fresh(&r->x, &r->m->pool, "rknnd_opset13_%zu", r->n_made++);
    size_t size = n * (type == QUANT_INT64 ? sizeof(int64_t) : sizeof(float));
    return name && quant_model_constant(r->m, name, type, n_dims, &dim, data, size) ? name : NULL;
}

// Makes the node's inputs `n`, the first `kept` of them its own.
static int raise_inputs(struct raise *r, Quant__Node *n, size_t kept, size_t count,
                        const char *const *more)
{
    char **in = quant_pool_take(&r->m->pool, count, sizeof *in);
    if (!in)
        return raise_no_memory(r);
    for (size_t i = 0; i < count; i++) {
        const char *from = i < kept ? quant_input(n, i) : more[i - kept];
        in[i] = from ? quant_pool_text(&r->m->pool, "%s", from) : NULL;
        if (!in[i])
            return raise_no_memory(r);
    }
    n->input = in;
    n->n_input = count;
    return 0;
}

// A list of integers that becomes input `at`; nothing if the attribute is not there.
static int raise_ints(struct raise *r, Quant__Node *n, const char *name, size_t at)
{
    const Quant__Attribute *a = quant_attr(n, name);
    if (!a || n->n_input > at)
        return 0;
    const char *constant = raise_constant(r, QUANT_INT64, 1, a->n_ints, a->ints);
    quant_attr_remove(n, name);
    return raise_inputs(r, n, at, at + 1, &constant);
}

static int raise_clip(struct raise *r, Quant__Node *n)
{
    if (r->from >= 11)
        return 0;
    float bounds[2] = {quant_attr_float(n, "min", -FLT_MAX), quant_attr_float(n, "max", FLT_MAX)};
    const char *inputs[2] = {raise_constant(r, QUANT_FLOAT, 0, 1, &bounds[0]),
                             raise_constant(r, QUANT_FLOAT, 0, 1, &bounds[1])};
    quant_attr_remove(n, "min");
    quant_attr_remove(n, "max");
    return raise_inputs(r, n, 1, 3, inputs);
}

static int raise_pad(struct raise *r, Quant__Node *n)
{
    if (r->from >= 11)
        return 0;
    float value = quant_attr_float(n, "value", 0);
    const Quant__Attribute *a = quant_attr(n, "pads");
    const char *inputs[2] = {
        raise_constant(r, QUANT_INT64, 1, a ? a->n_ints : 0, a ? a->ints : NULL),
        raise_constant(r, QUANT_FLOAT, 0, 1, &value)};
    quant_attr_remove(n, "pads");
    quant_attr_remove(n, "value");
    return raise_inputs(r, n, 1, 3, inputs);
}

static int raise_slice(struct raise *r, Quant__Node *n)
{
    const char *names[3] = {"starts", "ends", "axes"}, *inputs[3];
    size_t count = 0;
    if (r->from >= 10)
        return 0;
    for (; count < 3; count++) {
        const Quant__Attribute *a = quant_attr(n, names[count]);
        if (!a)
            break;
        inputs[count] = raise_constant(r, QUANT_INT64, 1, a->n_ints, a->ints);
    }
    for (size_t i = 0; i < 3; i++)
        quant_attr_remove(n, names[i]);
    return raise_inputs(r, n, 1, 1 + count, inputs);
}

static int raise_top_k(struct raise *r, Quant__Node *n)
{
    if (r->from >= 10)
        return 0;
    int64_t k = quant_attr_int(n, "k", 1);
    const char *constant = raise_constant(r, QUANT_INT64, 1, 1, &k);
    quant_attr_remove(n, "k");
    return raise_inputs(r, n, 1, 2, &constant);
}

// Upsample, and Resize of set 10, place pixels from the corner on and cut towards it.
static int raise_resize(struct raise *r, Quant__Node *n)
{
    const char *inputs[2] = {"", quant_input(n, 1)};
    const Quant__Attribute *scales = quant_attr(n, "scales");
    if (r->from >= 11)
        return 0;
    if (scales) {
        inputs[1] = raise_constant(r, QUANT_FLOAT, 1, scales->n_floats, scales->floats);
        quant_attr_remove(n, "scales");
    }
    n->op_type = quant_pool_text(&r->m->pool, "Resize");
    if (!n->op_type ||
        !quant_model_set_text(r->m, n, "coordinate_transformation_mode", "asymmetric") ||
        !quant_model_set_text(r->m, n, "nearest_mode", "floor"))
        return raise_no_memory(r);
    return raise_inputs(r, n, 1, 3, inputs);
}

static int raise_batch_norm(struct raise *r, Quant__Node *n)
{
    if (quant_attr_int(n, "spatial", 1) != 1)
        return error_set(r->e, STATUS_MODEL_INVALID,
                         "node %s: BatchNormalization with spatial=0 is not supported",
                         quant_node_name(n));
    quant_attr_remove(n, "spatial");
    return 0;
}

static int raise_dropout(struct raise *r, Quant__Node *n)
{
    (void)r;
    if (r->from < 12) {
        quant_attr_remove(n, "ratio");
        quant_attr_remove(n, "seed");
    }
    return 0;
}

// ---- Softmax ----

static const Quant__Shape *raise_shape(const struct raise *r, const char *name)
{
    const Quant__Graph *g = r->m->graph;
    for (size_t i = 0; i < g->n_output + g->n_value_info; i++) {
        const Quant__ValueInfo *v = i < g->n_output ? g->output[i] : g->value_info[i - g->n_output];
        if (strcmp(quant_text(v->name), name) == 0 && v->type && v->type->tensor_type)
            return v->type->tensor_type->shape;
    }
    return NULL;
}

// Whether all dimensions behind the axis are known to be 1.
static bool raise_is_last(const struct raise *r, const Quant__Node *n, int64_t axis)
{
    const Quant__Shape *s = raise_shape(r, quant_output(n, 0));
    if (!s || axis < 0 || axis >= (int64_t)s->n_dim)
        return axis == -1;
    for (size_t i = (size_t)axis + 1; i < s->n_dim; i++)
        if (!s->dim[i]->has_dim_value || s->dim[i]->dim_value != 1)
            return false;
    return true;
}

// Before 13 the dimensions from the axis on were one: Flatten, Softmax of the last one, and back.
static int raise_flattened(struct raise *r, Quant__Node *n, int64_t axis)
{
    struct quant_pool *p = &r->m->pool;
    const struct quant_index *names = &r->x;
    const char *x = quant_input(n, 0), *y = quant_output(n, 0);
    const char *flat = quant_index_fresh(names, p, "%s_rknnd_flat", y);
    const char *soft = quant_index_fresh(names, p, "%s_rknnd_soft", y);
    const char *shape = quant_index_fresh(names, p, "%s_rknnd_shape", y);
    if (!flat || !soft || !shape)
        return raise_no_memory(r);
    Quant__Node *to = quant_model_node(r->m, "Flatten", flat, 1, &x, flat);
    Quant__Node *shaped = quant_model_node(r->m, "Shape", shape, 1, &x, shape);
    Quant__Node *back =
        quant_model_node(r->m, "Reshape", quant_text(n->name), 2, (const char *[]){soft, shape}, y);
    Quant__Node *middle = quant_model_node(r->m, n->op_type, soft, 1, &flat, soft);
    if (!to || !shaped || !back || !middle || !quant_model_set_int(r->m, to, "axis", axis) ||
        !quant_model_set_int(r->m, middle, "axis", -1) ||
        !quant_model_append(r->m, &r->nodes, to) || !quant_model_append(r->m, &r->nodes, shaped) ||
        !quant_model_append(r->m, &r->nodes, middle))
        return raise_no_memory(r);
    *n = *back;
    return 0;
}

static int raise_softmax(struct raise *r, Quant__Node *n)
{
    int64_t axis = quant_attr_int(n, "axis", 1);
    if (!raise_is_last(r, n, axis))
        return raise_flattened(r, n, axis);
    quant_attr_remove(n, "axis");
    return quant_model_set_int(r->m, n, "axis", axis) ? 0 : raise_no_memory(r);
}

// ---- all of them ----

static int raise_axes(struct raise *r, Quant__Node *n)
{
    return raise_ints(r, n, "axes", 1);
}

static int raise_split(struct raise *r, Quant__Node *n)
{
    return raise_ints(r, n, "split", 1);
}

static const struct {
    const char *op;
    int (*raise)(struct raise *r, Quant__Node *n);
} changed[] = {
    {"BatchNormalization", raise_batch_norm},
    {"Clip", raise_clip},
    {"Dropout", raise_dropout},
    {"Hardmax", raise_softmax},
    {"LogSoftmax", raise_softmax},
    {"Pad", raise_pad},
    {"ReduceSum", raise_axes},
    {"Resize", raise_resize},
    {"Slice", raise_slice},
    {"Softmax", raise_softmax},
    {"Split", raise_split},
    {"Squeeze", raise_axes},
    {"TopK", raise_top_k},
    {"Unsqueeze", raise_axes},
    {"Upsample", raise_resize},
};

static int raise_node(struct raise *r, Quant__Node *n)
{
    if (*quant_text(n->domain) && strcmp(n->domain, "ai.onnx") != 0)
        return 0;
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        if (quant_is(n, changed[i].op))
            return changed[i].raise(r, n);
    for (const char *const *op = same_as_ever; *op; op++)
        if (quant_is(n, *op))
            return 0;
    return error_set(r->e, STATUS_MODEL_INVALID,
                     "node %s: whether %s of operator set %lld is the same in set %d, which scales "
                     "of channels need, is not known: convert the model to that set first",
                     quant_node_name(n), quant_text(n->op_type), (long long)r->from, QUANT_OPSET);
}

// In files before IR version 4 constants were inputs as well; now that would mean that they can be
// replaced.
static void raise_drop_inputs(Quant__Graph *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        bool constant = false;
        for (size_t k = 0; k < g->n_initializer && !constant; k++)
            constant =
                strcmp(quant_text(g->input[i]->name), quant_text(g->initializer[k]->name)) == 0;
        if (!constant)
            g->input[kept++] = g->input[i];
    }
    g->n_input = kept;
}

int quant_opset_raise(struct quant_model *m, struct error *e)
{
    struct raise r = {.m = m, .from = quant_model_opset(m), .e = e};
    if (r.from >= QUANT_OPSET)
        return 0;
    if (r.from < OLDEST || m->has_subgraphs)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the model is of operator set %lld%s; %d to %d can be raised to %d, which "
                         "scales of channels need: convert it to that set first",
                         (long long)r.from, m->has_subgraphs ? " and has subgraphs" : "", OLDEST,
                         QUANT_OPSET - 1, QUANT_OPSET);
    int result = quant_index_make(&r.x, m, e);
    for (size_t i = 0; i < m->graph->n_node && result == 0; i++) {
        result = raise_node(&r, m->graph->node[i]);
        if (result == 0 && !quant_model_append(m, &r.nodes, m->graph->node[i]))
            result = raise_no_memory(&r);
    }
    quant_index_done(&r.x);
    if (result < 0)
        return result;
    quant_model_take_nodes(m, &r.nodes);
    for (size_t i = 0; i < m->proto->n_opset_import; i++) {
        const char *domain = quant_text(m->proto->opset_import[i]->domain);
        if (!*domain || strcmp(domain, "ai.onnx") == 0)
            m->proto->opset_import[i]->version = QUANT_OPSET;
    }
    if (m->proto->ir_version < 4)
        raise_drop_inputs(m->graph);
    if (m->proto->ir_version < 7)
        m->proto->ir_version = 7;
    m->proto->has_ir_version = true;
    return 0;
}
