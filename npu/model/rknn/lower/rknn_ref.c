// Nodes of a .rknn file that the reference operators (graph_ref.h) compute: integers, truth values,
// and operators that the board runs on its CPU. They are slow and exact; quantized tensors are
// dequantized for them.
#include "npu/model/rknn/lower/rknn_lower.h"

static bool holds_integers(const struct graph_tensor *t)
{
    return !t->quantized && t->type != TENSOR_FLOAT32 && t->type != TENSOR_FLOAT16;
}

// Makes the node a reference operator of its first n_in inputs; `ints` are copied.
static int emit(struct rknn_lowering *l, enum graph_ref_op op, uint32_t n_in, const int64_t *ints,
                uint32_t n_ints, struct error *e)
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

// ---- arithmetic ----

// The reference operator for arithmetic; Add for what is left.
static int64_t ref_binary_of(enum graph_op op)
{
    switch (op) {
    case GRAPH_SUB:
        return REF_SUB;
    case GRAPH_MUL:
        return REF_MUL;
    case GRAPH_DIV:
        return REF_DIV;
    case GRAPH_POW:
        return REF_POW;
    case GRAPH_MOD:
        return REF_MOD;
    case GRAPH_MAX:
        return REF_MAX;
    case GRAPH_MIN:
        return REF_MIN;
    default:
        return REF_ADD;
    }
}

// Integers have an exact reference operator, real numbers the fast one, with fused activations.
int lower_arithmetic(struct rknn_lowering *l, const char *suffix, struct error *e)
{
    int64_t kind = ref_binary_of(l->out->op);
    int r = lower_inputs(l, 2, e);
    if (r < 0)
        return r;
    if (kind == REF_MOD && rknn_attr_int(l->node, "fmod", 0))
        kind = REF_FMOD;
    if (!holds_integers(lower_output(l, 0)) && kind != REF_FMOD)
        return lower_posts(l, suffix, -1, e);
    if (suffix[0])
        return lower_refuse(l, e, "\"%s\" is not fused into arithmetic of integers", suffix);
    return emit(l, REF_OP_BINARY, 2, &kind, 1, e);
}

// Floats lose their fraction where they become integers.
int lower_cast(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    if (r < 0 || !holds_integers(lower_output(l, 0)))
        return r;
    return emit(l, REF_OP_CAST, 1, NULL, 0, e);
}

int lower_gather_from_table(struct rknn_lowering *l, struct error *e)
{
    return emit(l, REF_OP_GATHER, 2, (int64_t[]){l->out->axis}, 1, e);
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

static int lower_reduction(struct rknn_lowering *l, int64_t kind, struct error *e)
{
    uint32_t axes, n = 1;
    int64_t ints[GRAPH_MAX_DIMS + 1] = {kind};
    int r = lower_inputs(l, 1, e);
    if (r < 0 || (r = find_axes(l, &axes, e)) < 0)
        return r;
    for (uint32_t i = 0; i < GRAPH_MAX_DIMS; i++)
        if (axes >> i & 1)
            ints[n++] = i;
    // A list of no axes would stand for all.
    return n == 1 ? lower_refuse(l, e, "it reduces nothing")
                  : emit(l, REF_OP_REDUCE, 1, ints, n, e);
}

int lower_mean(struct rknn_lowering *l, struct error *e)
{
    if (holds_integers(lower_output(l, 0)))
        return lower_reduction(l, REF_MEAN, e);
    int r = lower_inputs(l, 1, e);
    return r < 0 ? r : find_axes(l, &l->out->axes, e);
}

// ---- along an axis ----

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
    int r = lower_inputs(l, 1, e);
    if (r < 0 || (r = lower_axis(l, 1, e)) < 0)
        return r;
    if (is_innermost(lower_input(l, 0), l->out->axis) || !l->out->on_cpu)
        return 0;
    return emit(l, REF_OP_SOFTMAX, 1, (int64_t[]){l->out->axis, 1, 0}, 3, e);
}

// Operator sets 11 and 13 agree where nothing follows the axis; elsewhere the file does not say
// which is meant.
static int lower_log_softmax(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    if (r < 0 || (r = lower_axis(l, -1, e)) < 0)
        return r;
    if (!is_innermost(lower_input(l, 0), l->out->axis))
        return lower_refuse(l, e, "whether it sums over more than its axis is not known");
    return emit(l, REF_OP_SOFTMAX, 1, (int64_t[]){l->out->axis, 0, 1}, 3, e);
}

static int lower_hardmax(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    if (r < 0 || (r = lower_axis(l, -1, e)) < 0)
        return r;
    return emit(l, REF_OP_HARDMAX, 1, (int64_t[]){l->out->axis, 0}, 2, e);
}

static int lower_arg_min(struct rknn_lowering *l, struct error *e)
{
    bool last = rknn_attr_int(l->node, "select_last_index", 0) != 0;
    int r = lower_inputs(l, 1, e);
    if (r < 0 || (r = lower_axis(l, 0, e)) < 0)
        return r;
    return emit(l, REF_OP_ARG_REDUCE, 1, (int64_t[]){l->out->axis, 1, last}, 3, e);
}

// Of channels-last images, the normalized dimensions are not contiguous in memory: the reference
// operator does those.
int lower_layer_norm(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 2, e);
    if (r < 0 || (r = lower_axis(l, -1, e)) < 0)
        return r;
    uint32_t n = l->n_inputs < 3 ? l->n_inputs : 3;
    float epsilon = (float)rknn_attr_float(l->node, "epsilon", 1e-5);
    if (!lower_input(l, 0)->channels_last) {
        l->out->n_inputs = n;
        l->out->layer_norm.epsilon = epsilon;
        return 0;
    }
    r = emit(l, REF_OP_LAYER_NORM, n, (int64_t[]){l->out->axis}, 1, e);
    l->out->ref.reals[0] = epsilon;
    return r;
}

// ---- images ----

static int lower_instance_norm(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 3, e);
    if (r == 0)
        r = emit(l, REF_OP_INSTANCE_NORM, 3, NULL, 0, e);
    if (r == 0)
        l->out->ref.reals[0] = (float)rknn_attr_float(l->node, "epsilon", 1e-5);
    return r;
}

static int lower_space(struct rknn_lowering *l, struct error *e)
{
    int64_t kind = REF_SPACE_TO_DEPTH;
    char mode[8];
    if (strcmp(l->node->op, "DepthToSpace") == 0) {
        rknn_attr_text(l->node, "mode", "DCR", mode, sizeof mode);
        kind = strcmp(mode, "CRD") == 0 ? REF_DEPTH_TO_SPACE_CRD : REF_DEPTH_TO_SPACE_DCR;
        if (kind == REF_DEPTH_TO_SPACE_DCR && strcmp(mode, "DCR") != 0)
            return lower_refuse(l, e, "mode \"%s\" is not known", mode);
    }
    int r = lower_inputs(l, 1, e);
    int64_t block = rknn_attr_int(l->node, "blocksize", 0);
    return r < 0 ? r : emit(l, REF_OP_SPACE, 1, (int64_t[]){block, kind}, 2, e);
}

// ---- the others ----

static int lower_several(struct rknn_lowering *l, enum graph_ref_op op, uint32_t n, int64_t kind,
                         struct error *e)
{
    int r = lower_inputs(l, n, e);
    return r < 0 ? r : emit(l, op, n, &kind, 1, e);
}

int lower_ref(struct rknn_lowering *l, struct error *e)
{
    // `lower` NULL: `op` of n inputs, its kind in ints[0]; REF_OP_NONE: a reduction.
    static const struct {
        const char *name;
        enum graph_ref_op op;
        uint32_t n;
        int64_t kind;
        int (*lower)(struct rknn_lowering *l, struct error *e);
    } rows[] = {
        {"Equal", REF_OP_BINARY, 2, REF_EQUAL, NULL},
        {"Less", REF_OP_BINARY, 2, REF_LESS, NULL},
        {"LessOrEqual", REF_OP_BINARY, 2, REF_LESS_EQUAL, NULL},
        {"Greater", REF_OP_BINARY, 2, REF_GREATER, NULL},
        {"GreaterOrEqual", REF_OP_BINARY, 2, REF_GREATER_EQUAL, NULL},
        {"And", REF_OP_BINARY, 2, REF_AND, NULL},
        {"Or", REF_OP_BINARY, 2, REF_OR, NULL},
        {"Xor", REF_OP_BINARY, 2, REF_XOR, NULL},
        {"Not", REF_OP_UNARY, 1, REF_NOT, NULL},
        {"Sign", REF_OP_UNARY, 1, REF_SIGN, NULL},
        {"Ceil", REF_OP_UNARY, 1, REF_CEIL, NULL},
        {"Round", REF_OP_UNARY, 1, REF_ROUND, NULL},
        {"Sin", REF_OP_UNARY, 1, REF_SIN, NULL},
        {"Cos", REF_OP_UNARY, 1, REF_COS, NULL},
        {"Where", REF_OP_WHERE, 3, 0, NULL},
        {"Tile", REF_OP_TILE, 1, 0, NULL},
        {"ReduceMax", REF_OP_NONE, 1, REF_REDUCE_MAX, NULL},
        {"ReduceMin", REF_OP_NONE, 1, REF_REDUCE_MIN, NULL},
        {"ReduceSum", REF_OP_NONE, 1, REF_SUM, NULL},
        {"ReduceProd", REF_OP_NONE, 1, REF_PROD, NULL},
        {"ReduceL1", REF_OP_NONE, 1, REF_L1, NULL},
        {"ReduceL2", REF_OP_NONE, 1, REF_L2, NULL},
        {"ReduceSumSquare", REF_OP_NONE, 1, REF_SUM_SQUARE, NULL},
        {"LogSoftmax", REF_OP_NONE, 1, 0, lower_log_softmax},
        {"Hardmax", REF_OP_NONE, 1, 0, lower_hardmax},
        {"ArgMin", REF_OP_NONE, 1, 0, lower_arg_min},
        {"InstanceNormalization", REF_OP_NONE, 3, 0, lower_instance_norm},
        {"DepthToSpace", REF_OP_NONE, 1, 0, lower_space},
        {"SpaceToDepth", REF_OP_NONE, 1, 0, lower_space},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, l->node->op) != 0)
            continue;
        if (rows[i].lower)
            return rows[i].lower(l, e);
        return rows[i].op ? lower_several(l, rows[i].op, rows[i].n, rows[i].kind, e)
                          : lower_reduction(l, rows[i].kind, e);
    }
    return lower_refuse(l, e, "operator \"%s\" is not known", l->node->op);
}
