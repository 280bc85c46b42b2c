// Operators of ONNX on single elements, and along axes. Floats go to the fast kernels, integers and
// rare operators to the reference operators. What an operator of the table is (onnx_operators.h)
// comes as l->operator->argument.
#include <math.h>

#include "npu/model/onnx/onnx_lower.h"

// ---- two operands ----

struct arithmetic {
    enum graph_op op; // of floats
    int64_t ref;      // of integers
};

static const struct arithmetic arithmetic[] = {
    {GRAPH_ADD, REF_ADD}, {GRAPH_SUB, REF_SUB}, {GRAPH_MUL, REF_MUL}, {GRAPH_DIV, REF_DIV},
    {GRAPH_MAX, REF_MAX}, {GRAPH_MIN, REF_MIN}, {GRAPH_POW, REF_POW}, {GRAPH_PRELU, REF_PRELU},
};

// All inputs are there and of the first one's type.
static int check_types(struct onnx_lowering *l, struct error *e)
{
    for (uint32_t i = 1; i < l->n_in; i++)
        if (!onnx_in(l, i) || onnx_in(l, i)->type != onnx_in(l, 0)->type)
            return onnx_refuse(l, e, "its inputs are of different types, or one is missing");
    return 0;
}

// A temporary of the shape that two tensors broadcast to.
static int32_t step_output_of(struct onnx_lowering *l, int32_t a, int32_t b, struct error *e)
{
    const struct graph_tensor *x = &l->g->tensors[a], *y = &l->g->tensors[b];
    uint32_t dims[GRAPH_MAX_DIMS], n = x->n_dims > y->n_dims ? x->n_dims : y->n_dims;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = i + x->n_dims < n ? 1 : x->dims[i + x->n_dims - n];
        uint32_t q = i + y->n_dims < n ? 1 : y->dims[i + y->n_dims - n];
        dims[i] = p == 1 ? q : p;
    }
    return onnx_temporary(l, x->type, n, dims, e);
}

// One binary node; `a->ref` is static, so the node may point to it.
static int emit_arithmetic(struct onnx_lowering *l, const struct arithmetic *a, const int32_t in[2],
                           int32_t out, struct error *e)
{
    bool real = onnx_is_float(l->g->tensors[in[0]].type);
    struct graph_node *n = onnx_emit(l, real ? a->op : GRAPH_REF, in, 2, &out, 1, e);
    if (!n || real)
        return n ? 0 : STATUS_MALLOC_FAIL;
    n->on_cpu = true;
    n->ref.op = REF_OP_BINARY;
    n->ref.ints = &a->ref;
    n->ref.n_ints = 1;
    return 0;
}

// Before set 7, broadcasting aligned the second input at dimension `axis` of the first instead of
// at the end: it gets dimensions of 1 behind it.
static int align_old(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *y = onnx_in(l, 1);
    int64_t axis = onnx_int(l, "axis", (int64_t)x->n_dims - y->n_dims);
    uint32_t dims[GRAPH_MAX_DIMS], n = x->n_dims;
    bool slopes = strcmp(l->operator->name, "PRelu") == 0 && y->n_elems > 1 && y->n_dims == 1;
    if (l->f->opset >= 7 || (!slopes && !onnx_has_attr(l, "axis")))
        return 0;
    axis = slopes ? 1 : axis; // one for each channel
    axis = axis < 0 ? axis + n : axis;
    if (axis < 0 || axis + y->n_dims > n)
        return onnx_refuse(l, e, "axis %lld of a tensor of %u dimensions", (long long)axis, n);
    for (uint32_t i = 0; i < n; i++)
        dims[i] = i < axis || i >= axis + y->n_dims ? 1 : y->dims[i - axis];
    l->in[1] = onnx_reshaped(l, l->in[1], n, dims, e);
    return l->in[1] < 0 ? l->in[1] : 0;
}

// Pow alone may have operands of two types.
int onnx_lower_binary(struct onnx_lowering *l, struct error *e)
{
    static const int64_t power = REF_POW;
    const struct arithmetic *a = &arithmetic[l->operator->argument];
    int r = align_old(l, e);
    if (r == 0)
        r = onnx_shape_broadcast(l, onnx_in(l, 0)->type, 2, e);
    if (r < 0)
        return r;
    if (a->op == GRAPH_POW && onnx_in(l, 0)->type != onnx_in(l, 1)->type)
        return onnx_emit_ref(l, REF_OP_BINARY, 2, &power, 1, e);
    r = check_types(l, e);
    return r < 0 ? r : emit_arithmetic(l, a, l->in, l->out[0], e);
}

// Max, Min, Sum and Mean of any number of inputs: two at a time; a Mean is the sum, scaled at the
// end.
int onnx_lower_variadic(struct onnx_lowering *l, struct error *e)
{
    bool mean = l->operator->argument<0;
    const struct arithmetic *a = &arithmetic[mean ? 0 : l->operator->argument];
    int32_t sum = l->in[0];
    int r = check_types(l, e);
    if (r == 0)
        r = onnx_shape_broadcast(l, onnx_in(l, 0)->type, l->n_in, e);
    if (r == 0 && mean && !onnx_is_float(onnx_in(l, 0)->type))
        return onnx_refuse(l, e, "it works on floats");
    for (uint32_t i = 1; i < l->n_in && r == 0; i++) {
        bool last = i + 1 == l->n_in && !mean;
        int32_t in[2] = {sum, l->in[i]};
        int32_t out = last ? l->out[0] : step_output_of(l, sum, l->in[i], e);
        r = out < 0 ? out : emit_arithmetic(l, a, in, out, e);
        sum = out;
    }
    if (r == 0 && l->n_in == 1 && !mean)
        return onnx_same(l, l->in[0], e);
    if (r < 0 || !mean)
        return r;
    struct graph_node *n = onnx_emit(l, GRAPH_UNARY, &sum, 1, l->out, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->n_post = 1;
    n->post[0] = (struct graph_post){.kind = POST_SCALE, .alpha = 1 / (float)l->n_in};
    return 0;
}

// Comparisons, logic, Mod, BitShift.
int onnx_lower_compare(struct onnx_lowering *l, struct error *e)
{
    int64_t kind = l->operator->argument;
    bool truth = kind >= REF_EQUAL && kind <= REF_GREATER_EQUAL;
    if (kind == REF_MOD && onnx_int(l, "fmod", 0))
        kind = REF_FMOD;
    if (kind == REF_SHIFT_LEFT && onnx_text_is(l, "direction", "RIGHT", ""))
        kind = REF_SHIFT_RIGHT;
    int r = check_types(l, e);
    if (r == 0)
        r = align_old(l, e);
    if (r == 0)
        r = onnx_shape_broadcast(l, truth ? TENSOR_BOOL : onnx_in(l, 0)->type, 2, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_BINARY, 2, &kind, 1, e);
}

// ---- one operand ----

// The activation with its parameters; defaults are ONNX's.
static struct graph_post post_of(const struct onnx_lowering *l)
{
    struct graph_post p = {.kind = (enum graph_post_kind)l->operator->argument };
    if (p.kind == POST_LEAKY_RELU)
        p.alpha = onnx_float(l, "alpha", 0.01f);
    else if (p.kind == POST_ELU)
        p.alpha = onnx_float(l, "alpha", 1);
    else if (p.kind == POST_HARD_SIGMOID) {
        p.alpha = onnx_float(l, "alpha", 0.2f);
        p.beta = onnx_float(l, "beta", 0.5f);
    } else if (p.kind == POST_HARD_SWISH) {
        p.alpha = 1.0f / 6;
        p.beta = 0.5f;
    } else if (p.kind == POST_GELU && onnx_text_is(l, "approximate", "tanh", "none"))
        p.kind = POST_GELU_TANH;
    return p;
}

static int emit_post(struct onnx_lowering *l, struct graph_post p, struct error *e)
{
    struct graph_node *n = onnx_emit_own(l, GRAPH_UNARY, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->n_post = 1;
    n->post[0] = p;
    return 0;
}

// Of integers only the functions that have a reference operator.
int onnx_lower_unary(struct onnx_lowering *l, struct error *e)
{
    struct graph_post p = post_of(l);
    int64_t ref = p.kind == POST_RELU    ? REF_RELU
                  : p.kind == POST_ABS   ? REF_ABS
                  : p.kind == POST_NEG   ? REF_NEG
                  : p.kind == POST_FLOOR ? REF_FLOOR
                                         : -1;
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    if (r < 0)
        return r;
    if (p.kind == POST_GELU && !onnx_text_is(l, "approximate", "none", "none"))
        return onnx_refuse(l, e, "approximate is neither none nor tanh");
    if (onnx_is_float(onnx_in(l, 0)->type))
        return emit_post(l, p, e);
    if (ref < 0)
        return onnx_refuse(l, e, "it works on floats");
    return onnx_emit_ref(l, REF_OP_UNARY, 1, &ref, 1, e);
}

// Selu, and Celu with an alpha of 1, are Elu. Otherwise Celu would divide and multiply what stays.
static int emit_elu(struct onnx_lowering *l, float alpha, float factor, struct error *e)
{
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    struct graph_node *n = r == 0 ? onnx_emit_own(l, GRAPH_UNARY, 1, e) : NULL;
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    n->post[n->n_post++] = (struct graph_post){.kind = POST_ELU, .alpha = alpha};
    if (factor < 1 || factor > 1)
        n->post[n->n_post++] = (struct graph_post){.kind = POST_SCALE, .alpha = factor};
    return 0;
}

// What computes a reference function for floats; POST_KIND_COUNT: nothing else does.
static enum graph_post_kind post_of_ref(int64_t kind)
{
    return kind == REF_SIN        ? POST_SIN
           : kind == REF_COS      ? POST_COS
           : kind == REF_SOFTSIGN ? POST_SOFTSIGN
           : kind == REF_CEIL     ? POST_CEIL
           : kind == REF_ROUND    ? POST_ROUND
           : kind == REF_SIGN     ? POST_SIGN
                                  : POST_KIND_COUNT;
}

// Functions that only the reference operators have, of integers or at all; reals[] takes their
// parameters.
int onnx_lower_ref_unary(struct onnx_lowering *l, struct error *e)
{
    int64_t kind = l->operator->argument;
    float alpha = 0, beta = 0;
    const struct graph_tensor *x = onnx_in(l, 0);
    bool truth = kind == REF_IS_NAN || kind == REF_IS_INF || kind == REF_NOT;
    if (kind == REF_SELU) {
        alpha = onnx_float(l, "alpha", 1.67326319217681884765625f);
        beta = onnx_float(l, "gamma", 1.05070102214813232421875f);
    } else if (kind == REF_CELU || kind == REF_THRESHOLDED_RELU) {
        alpha = onnx_float(l, "alpha", 1);
    } else if (kind == REF_SHRINK) {
        alpha = onnx_float(l, "lambd", 0.5f);
        beta = onnx_float(l, "bias", 0);
    } else if (kind == REF_IS_INF) {
        alpha = (float)onnx_int(l, "detect_negative", 1);
        beta = (float)onnx_int(l, "detect_positive", 1);
    }
    bool elu = kind == REF_SELU || (kind == REF_CELU && alpha >= 1 && alpha <= 1);
    if (elu && onnx_is_float(x->type))
        return emit_elu(l, alpha, kind == REF_SELU ? beta : 1, e);
    bool floats = onnx_is_float(x->type);
    struct graph_post post = {.kind = post_of_ref(kind)};
    int r = onnx_shape(l, 0, truth ? TENSOR_BOOL : x->type, x->n_dims, x->dims, e);
    if (r == 0 && post.kind != POST_KIND_COUNT && floats)
        return emit_post(l, post, e);
    if (r == 0)
        r = onnx_emit_ref(l, REF_OP_UNARY, 1, &kind, 1, e);
    if (r == 0) {
        l->g->nodes[l->g->n_nodes - 1].ref.reals[0] = alpha;
        l->g->nodes[l->g->n_nodes - 1].ref.reals[1] = beta;
    }
    return r;
}

// Bounds are attributes up to set 10, then inputs. Constant bounds become an activation; others,
// and crossed ones, for which ONNX defines min(max(x, low), high), are for the reference operator.
int onnx_lower_clip(struct onnx_lowering *l, struct error *e)
{
    float low = onnx_float(l, "min", -INFINITY), high = onnx_float(l, "max", INFINITY);
    const struct graph_tensor *a = onnx_in(l, 1), *b = onnx_in(l, 2);
    uint32_t n;
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    if (r < 0)
        return r;
    if (onnx_in(l, 0)->type != TENSOR_FLOAT32 || (a && !a->constant) || (b && !b->constant))
        return onnx_emit_ref(l, REF_OP_CLIP, 3, NULL, 0, e);
    if ((a && a->n_elems != 1) || (b && b->n_elems != 1))
        return onnx_refuse(l, e, "its bounds are not single numbers");
    r = onnx_in_floats(l, 1, &low, &n, e);
    if (r == 0)
        r = onnx_in_floats(l, 2, &high, &n, e);
    if (r == 0 && low > high)
        return onnx_emit_ref(l, REF_OP_CLIP, 3, NULL, 0, e);
    struct graph_post p = {.kind = POST_CLIP, .alpha = low, .beta = high};
    return r < 0 ? r : emit_post(l, p, e);
}

// Doubles are taken as floats, which is harmless for floats but not for wide integers: those are
// refused.
// A Cast to halves rounds to them, which then are floats again.
static int round_to_halves(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor x = *onnx_in(l, 0);
    int32_t half = onnx_temporary(l, TENSOR_FLOAT16, x.n_dims, x.dims, e);
    int r = half < 0 ? half : onnx_shape(l, 0, TENSOR_FLOAT32, x.n_dims, x.dims, e);
    if (r < 0)
        return r;
    const int32_t out = l->out[0];
    const bool known = x.type == TENSOR_FLOAT32 && x.n_elems;
    l->out[0] = half;
    r = known ? (onnx_emit_own(l, GRAPH_CONVERT, 1, e) ? 0 : STATUS_MALLOC_FAIL)
              : onnx_emit_ref(l, REF_OP_CAST, 1, NULL, 0, e);
    l->in[0] = half;
    l->out[0] = out;
    if (r < 0)
        return r;
    return known ? (onnx_emit_own(l, GRAPH_CONVERT, 1, e) ? 0 : STATUS_MALLOC_FAIL)
                 : onnx_emit_ref(l, REF_OP_CAST, 1, NULL, 0, e);
}

int onnx_lower_cast(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    enum tensor_type to;
    bool like = l->operator->argument;
    if (like)
        to = onnx_in(l, 1)->type;
    else if (!onnx_type_of((int32_t)onnx_int(l, "to", 0), &to))
        return onnx_refuse(l, e, "element type %lld is not supported",
                           (long long)onnx_int(l, "to", 0));
    bool wide = x->type == TENSOR_INT64 || x->type == TENSOR_INT32 || x->type == TENSOR_UINT32;
    if (wide && onnx_int(l, "to", 0) == ONNX_DOUBLE)
        return onnx_refuse(l, e, "doubles are taken as floats, which cannot hold every %s",
                           tensor_type_name(x->type));
    bool natural =
        like ? onnx_in(l, 1)->natural : onnx_int(l, "to", 0) == ONNX_UINT64; // is checked
    l->n_in = 1;
    if (!like && onnx_int(l, "to", 0) == ONNX_FLOAT16)
        return round_to_halves(l, e);
    if (to == x->type && natural == x->natural)
        return onnx_same(l, l->in[0], e);
    bool exact = to == TENSOR_FLOAT32 && (x->type == TENSOR_INT32 || x->type == TENSOR_INT8 ||
                                          x->type == TENSOR_UINT8 || x->type == TENSOR_INT16);
    int r = onnx_shape(l, 0, to, x->n_dims, x->dims, e);
    if (r == 0 && exact && x->n_elems) // rounded once, from 32 bits
        return onnx_emit_own(l, GRAPH_CONVERT, 1, e) ? 0 : STATUS_MALLOC_FAIL;
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_CAST, 1, NULL, 0, e);
}

int onnx_lower_where(struct onnx_lowering *l, struct error *e)
{
    int r = onnx_shape_broadcast(l, onnx_in(l, 1)->type, 3, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_WHERE, 3, NULL, 0, e);
}

// ---- along axes ----

// Axes are an attribute or, in later sets, input 1.
static int take_axes(struct onnx_lowering *l, uint32_t n_dims, int64_t *axes, uint32_t *ret_n,
                     struct error *e)
{
    int r = l->n_in > 1 ? onnx_in_ints(l, 1, axes, ret_n, e) : onnx_ints(l, "axes", axes, ret_n, e);
    for (uint32_t i = 0; i < *ret_n && r == 0; i++)
        r = onnx_axis(l, axes[i], n_dims, &axes[i], e);
    return r;
}

// An empty list stands for all.
static bool is_among(int64_t v, const int64_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == v)
            return true;
    return n == 0;
}

// Reduced dimensions become 1, or vanish without keepdims.
static int shape_reduced(struct onnx_lowering *l, enum tensor_type type, const int64_t *axes,
                         uint32_t n, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    bool keep = onnx_int(l, "keepdims", 1);
    uint32_t dims[GRAPH_MAX_DIMS], n_dims = 0;
    for (uint32_t i = 0; i < x->n_dims; i++) {
        bool reduced = is_among(i, axes, n);
        if (!reduced || keep)
            dims[n_dims++] = reduced ? 1 : x->dims[i];
    }
    return onnx_shape(l, 0, type, n_dims, dims, e);
}

static int emit_mean(struct onnx_lowering *l, const int64_t *axes, uint32_t n, struct error *e)
{
    struct graph_node *node = onnx_emit_own(l, GRAPH_REDUCE_MEAN, 1, e);
    if (!node)
        return STATUS_MALLOC_FAIL;
    for (uint32_t i = 0; i < onnx_in(l, 0)->n_dims; i++)
        node->axes |= is_among(i, axes, n) ? 1u << i : 0;
    return 0;
}

// Without axes, and where that means none: what each element alone gives, which is the sum of one.
static int reduce_nothing(struct onnx_lowering *l, int64_t kind, struct error *e)
{
    const struct graph_tensor x = *onnx_in(l, 0);
    const int64_t ints[2] = {kind, x.n_dims};
    uint32_t dims[GRAPH_MAX_DIMS + 1];
    if (kind == REF_SUM || kind == REF_MEAN || kind == REF_PROD || kind == REF_REDUCE_MAX ||
        kind == REF_REDUCE_MIN)
        return onnx_same(l, l->in[0], e);
    if (x.n_dims == GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "its input has too many dimensions");
    memcpy(dims, x.dims, x.n_dims * sizeof *dims);
    dims[x.n_dims] = 1;
    l->in[0] = onnx_reshaped(l, l->in[0], x.n_dims + 1, dims, e);
    int r = l->in[0] < 0 ? l->in[0] : onnx_shape(l, 0, x.type, x.n_dims, x.dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_REDUCE, 1, ints, 2, e);
}

// The mean of floats has a fast kernel; ints: the kind, then the axes.
int onnx_lower_reduce(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t ints[ONNX_MAX_SHAPE + 1] = {l->operator->argument };
    uint32_t n;
    int r = take_axes(l, x->n_dims, ints + 1, &n, e);
    if (r < 0)
        return r;
    if (n == 0 && onnx_int(l, "noop_with_empty_axes", 0))
        return reduce_nothing(l, ints[0], e);
    r = shape_reduced(l, x->type, ints + 1, n, e);
    if (r < 0)
        return r;
    return ints[0] == REF_MEAN && onnx_is_float(x->type) && x->n_elems
               ? emit_mean(l, ints + 1, n, e)
               : onnx_emit_ref(l, REF_OP_REDUCE, 1, ints, n + 1, e);
}

#define MOST_COUNTED (1u << 24) // integers that floats hold, as the fast kernel counts

// The first maximum of floats has a fast kernel; ints: axis, whether it is the minimum, whether the
// last of equals counts.
int onnx_lower_arg_reduce(struct onnx_lowering *l, struct error *e)
{
    int64_t ints[3] = {0, l->operator->argument, onnx_int(l, "select_last_index", 0)};
    int r = onnx_axis(l, onnx_int(l, "axis", 0), onnx_in(l, 0)->n_dims, &ints[0], e);
    if (r == 0)
        r = shape_reduced(l, TENSOR_INT64, ints, 1, e);
    if (r < 0)
        return r;
    const struct graph_tensor *x = onnx_in(l, 0);
    bool floats = x->type == TENSOR_FLOAT32 || x->type == TENSOR_FLOAT16;
    if (ints[2] || !floats || !x->n_elems || x->dims[ints[0]] > MOST_COUNTED)
        return onnx_emit_ref(l, REF_OP_ARG_REDUCE, 1, ints, 3, e);
    if (ints[1]) { // the least is the largest of what is negated
        int32_t negated = onnx_temporary(l, x->type, x->n_dims, x->dims, e);
        struct graph_node *neg =
            negated < 0 ? NULL : onnx_emit(l, GRAPH_UNARY, l->in, 1, &negated, 1, e);
        if (!neg)
            return negated < 0 ? negated : STATUS_MALLOC_FAIL;
        neg->n_post = 1;
        neg->post[0] = (struct graph_post){.kind = POST_NEG};
        l->in[0] = negated;
    }
    struct graph_node *n = onnx_emit_own(l, GRAPH_ARG_MAX, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->axis = (int32_t)ints[0];
    return 0;
}

// Up to set 12 all dimensions from the axis on are taken as one: the fast kernel knows one axis, so
// it serves those only where the axis is innermost.
int onnx_lower_softmax(struct onnx_lowering *l, struct error *e)
{
    enum { PLAIN, LOGARITHM, HARD };
    const struct graph_tensor *x = onnx_in(l, 0);
    bool old = l->f->opset < 13;
    int64_t ints[3] = {0, old, l->operator->argument == LOGARITHM };
    int r = onnx_axis(l, onnx_int(l, "axis", old ? 1 : -1), x->n_dims, &ints[0], e);
    if (r == 0)
        r = onnx_shape_like(l, 0, x, e);
    if (r < 0)
        return r;
    uint64_t behind = 1;
    for (uint32_t i = (uint32_t)ints[0] + 1; i < x->n_dims; i++)
        behind *= x->dims[i];
    if (l->operator->argument == HARD ||(old && behind != 1) || !onnx_is_float(x->type) ||
        !x->n_elems)
        return onnx_emit_ref(l, l->operator->argument == HARD ? REF_OP_HARDMAX : REF_OP_SOFTMAX, 1,
                             ints, 3, e);
    struct graph_node *n = onnx_emit_own(
        l, l->operator->argument == LOGARITHM ? GRAPH_LOG_SOFTMAX : GRAPH_SOFTMAX, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->axis = (int32_t)ints[0];
    return 0;
}

// The axis is an input.
int onnx_lower_cum_sum(struct onnx_lowering *l, struct error *e)
{
    int64_t ints[ONNX_MAX_SHAPE] = {0};
    uint32_t n;
    int r = onnx_in_ints(l, 1, ints, &n, e);
    if (r == 0)
        r = onnx_axis(l, ints[0], onnx_in(l, 0)->n_dims, &ints[0], e);
    if (r == 0)
        r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    ints[1] = onnx_int(l, "exclusive", 0);
    ints[2] = onnx_int(l, "reverse", 0);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_CUM_SUM, 1, ints, 3, e);
}

// The number is an attribute up to set 9, then input 1.
// Outputs: values and indices.
int onnx_lower_top_k(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t ints[3] = {0, onnx_int(l, "k", -1), onnx_int(l, "largest", 1)}, k[ONNX_MAX_SHAPE];
    uint32_t n, dims[GRAPH_MAX_DIMS];
    bool floats = onnx_is_float(x->type);
    int r = onnx_in_ints(l, 1, k, &n, e);
    if (r == 0)
        r = onnx_axis(l, onnx_int(l, "axis", -1), x->n_dims, &ints[0], e);
    if (r < 0)
        return r;
    ints[1] = n ? k[0] : ints[1];
    memcpy(dims, x->dims, sizeof dims);
    if (ints[1] < 0 || ints[1] > dims[ints[0]])
        return onnx_refuse(l, e, "%lld of %u elements are wanted", (long long)ints[1],
                           dims[ints[0]]);
    dims[ints[0]] = (uint32_t)ints[1];
    r = onnx_shape(l, 0, x->type, x->n_dims, dims, e);
    if (r == 0)
        r = onnx_shape(l, 1, TENSOR_INT64, onnx_in(l, 0)->n_dims, dims, e);
    if (r < 0 || !floats || !ints[1])
        return r < 0 ? r : onnx_emit_ref(l, REF_OP_TOP_K, 1, ints, 3, e);
    struct graph_node *node = onnx_emit_own(l, GRAPH_TOP_K, 1, e);
    if (!node)
        return STATUS_MALLOC_FAIL;
    node->axis = (int32_t)ints[0];
    node->largest = ints[2] != 0;
    return 0;
}
