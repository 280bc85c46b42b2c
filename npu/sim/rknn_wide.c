// Nodes of a .rknn file that are worked on as wide numbers: integers, truth values, and operators
// that only the board's CPU has.
#include "npu/sim/rknn_lower.h"
#include "npu/sim/wide.h"

static bool holds_integers(const struct graph_tensor *t)
{
    return !t->quantized && t->type != TENSOR_FLOAT32 && t->type != TENSOR_FLOAT16;
}

static int emit(struct rknn_lowering *l, const struct wide_operator *operator, uint32_t n_in,
                const int64_t *ints, uint32_t n_ints, struct error *e)
{
    int64_t *own = pool_alloc(&l->g->pool, n_ints, sizeof *own);
    if (!own)
        return error_no_memory(e, "a node", n_ints * sizeof *own);
    for (uint32_t i = 0; i < n_ints; i++)
        own[i] = ints[i];
    l->out->op = GRAPH_WIDE;
    l->out->n_inputs = n_in;
    l->out->wide.operator= operator;
    l->out->wide.ints = own;
    l->out->wide.n_ints = n_ints;
    l->out->wide.dequantize = true;
    return 0;
}

// ---- arithmetic ----

static int64_t wide_kind(enum graph_op op)
{
    switch (op) {
    case GRAPH_SUB:
        return WIDE_SUB;
    case GRAPH_MUL:
        return WIDE_MUL;
    case GRAPH_DIV:
        return WIDE_DIV;
    case GRAPH_POW:
        return WIDE_POW;
    case GRAPH_MOD:
        return WIDE_MOD;
    case GRAPH_MAX:
        return WIDE_MAX;
    case GRAPH_MIN:
        return WIDE_MIN;
    default:
        return WIDE_ADD;
    }
}

int lower_arithmetic(struct rknn_lowering *l, const char *suffix, struct error *e)
{
    int64_t kind = wide_kind(l->out->op);
    int r = lower_inputs(l, 2, e);
    if (r < 0)
        return r;
    if (kind == WIDE_MOD && rknn_attr_int(l->node, "fmod", 0))
        kind = WIDE_FMOD;
    if (!holds_integers(lower_output(l, 0)) && kind != WIDE_FMOD)
        return lower_posts(l, suffix, -1, e);
    if (suffix[0])
        return lower_refuse(l, e, "\"%s\" is not fused into arithmetic of integers", suffix);
    return emit(l, &wide_binary, 2, &kind, 1, e);
}

// Floats lose their fraction where they become integers.
int lower_cast(struct rknn_lowering *l, struct error *e)
{
    int r = lower_inputs(l, 1, e);
    if (r < 0 || !holds_integers(lower_output(l, 0)))
        return r;
    return emit(l, &wide_cast, 1, NULL, 0, e);
}

// ---- reductions ----

// The reduced dimensions are those that the output has as 1; without keepdims they must be named.
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
    return n == 1 ? lower_refuse(l, e, "it reduces nothing") : emit(l, &wide_reduce, 1, ints, n, e);
}

int lower_mean(struct rknn_lowering *l, struct error *e)
{
    if (holds_integers(lower_output(l, 0)))
        return lower_reduction(l, WIDE_MEAN, e);
    int r = lower_inputs(l, 1, e);
    return r < 0 ? r : find_axes(l, &l->out->axes, e);
}

// ---- the others ----

static int lower_several(struct rknn_lowering *l, const struct wide_operator *operator, uint32_t n,
                         int64_t kind, struct error *e)
{
    int r = lower_inputs(l, n, e);
    return r < 0 ? r : emit(l, operator, n, &kind, 1, e);
}

int lower_wide(struct rknn_lowering *l, struct error *e)
{
    static const struct {
        const char *name;
        enum { BINARY, UNARY, REDUCE, WHERE, TILE } form;
        int64_t kind;
    } operators[] = {
        {"Equal", BINARY, WIDE_EQUAL},
        {"Less", BINARY, WIDE_LESS},
        {"LessOrEqual", BINARY, WIDE_LESS_EQUAL},
        {"Greater", BINARY, WIDE_GREATER},
        {"GreaterOrEqual", BINARY, WIDE_GREATER_EQUAL},
        {"And", BINARY, WIDE_AND},
        {"Or", BINARY, WIDE_OR},
        {"Xor", BINARY, WIDE_XOR},
        {"Not", UNARY, WIDE_NOT},
        {"Sign", UNARY, WIDE_SIGN},
        {"Ceil", UNARY, WIDE_CEIL},
        {"Round", UNARY, WIDE_ROUND},
        {"Sin", UNARY, WIDE_SIN},
        {"Cos", UNARY, WIDE_COS},
        {"ReduceMax", REDUCE, WIDE_REDUCE_MAX},
        {"ReduceMin", REDUCE, WIDE_REDUCE_MIN},
        {"ReduceSum", REDUCE, WIDE_SUM},
        {"ReduceProd", REDUCE, WIDE_PROD},
        {"ReduceL1", REDUCE, WIDE_L1},
        {"ReduceL2", REDUCE, WIDE_L2},
        {"ReduceSumSquare", REDUCE, WIDE_SUM_SQUARE},
        {"Where", WHERE, 0},
        {"Tile", TILE, 0},
    };
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(operators[i].name, l->node->op) != 0)
            continue;
        int64_t kind = operators[i].kind;
        switch (operators[i].form) {
        case BINARY:
            return lower_several(l, &wide_binary, 2, kind, e);
        case UNARY:
            return lower_several(l, &wide_unary, 1, kind, e);
        case REDUCE:
            return lower_reduction(l, kind, e);
        case WHERE:
            return lower_several(l, &wide_where, 3, kind, e);
        default:
            return lower_several(l, &wide_tile, 1, kind, e);
        }
    }
    return lower_refuse(l, e, "operator \"%s\" is not known", l->node->op);
}
