// LayerNormalization, InstanceNormalization, GroupNormalization, LRN, LpNormalization and
// MeanVarianceNormalization of ONNX.
//
// Groups of floats that are normalized by constants become LAYER_NORM of a matrix, a group a row:
//
//   LayerNormalization     [rows, group]   with scale and bias of the group
//   InstanceNormalization  [N * C, pixels] without; then BATCH_NORM with those of the channels
//   GroupNormalization     [N * groups, pixels of its channels] without; then the same, or a
//                          product and a sum
//
// where a Reshape in front and behind sees to the order in memory. All else are reference operators
// with epsilon and the like in reals[].
#include <float.h>

#include "npu/model/onnx/onnx_lower.h"

// A reference operator of all inputs, with one integer and n reals.
static int emit(struct onnx_lowering *l, enum graph_ref_op op, int64_t number, const float *reals,
                uint32_t n, struct error *e)
{
    int r = onnx_emit_ref(l, op, l->n_in, &number, 1, e);
    if (r == 0)
        memcpy(l->g->nodes[l->g->n_nodes - 1].ref.reals, reals, n * sizeof *reals);
    return r;
}

// ---- as matrices ----

static uint64_t product_of(const uint32_t *dims, uint32_t n)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < n; i++)
        product *= dims[i];
    return product;
}

static bool is_constant_of(const struct graph_tensor *t, enum tensor_type type, uint64_t n)
{
    return t->constant && t->type == type && t->n_elems == n;
}

// LAYER_NORM of the matrix x, [rows, columns], to y. NULL: no memory.
static struct graph_node *emit_rows(struct onnx_lowering *l, int32_t x, int32_t y, float epsilon,
                                    struct error *e)
{
    const int32_t edges[3] = {x, l->in[1], l->n_in > 2 ? l->in[2] : -1};
    struct graph_node *n = onnx_emit(l, GRAPH_LAYER_NORM, edges, 3, &y, 1, e);
    if (n) {
        n->on_cpu = true;
        n->axis = 1;
        n->layer_norm = (struct graph_layer_norm){.epsilon = epsilon};
    }
    return n;
}

// Reshape, LAYER_NORM, Reshape to `to`.
static int emit_matrix(struct onnx_lowering *l, const uint32_t dims[2], float epsilon,
                       bool parameters, int32_t to, struct error *e)
{
    enum tensor_type type = onnx_in(l, 0)->type;
    int32_t x = onnx_temporary(l, type, 2, dims, e), y = onnx_temporary(l, type, 2, dims, e);
    if (x < 0 || y < 0)
        return STATUS_MALLOC_FAIL;
    if (!onnx_emit(l, GRAPH_RESHAPE, l->in, 1, &x, 1, e))
        return STATUS_MALLOC_FAIL;
    struct graph_node *n = emit_rows(l, x, y, epsilon, e);
    if (n && !parameters)
        n->n_inputs = 1;
    return n && onnx_emit(l, GRAPH_RESHAPE, &y, 1, &to, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// ---- LayerNormalization ----

// Floats with constants for the whole group, and no other output than the first.
static bool layer_norm_is_fast(const struct onnx_lowering *l, uint64_t group)
{
    const struct graph_tensor *x = onnx_in(l, 0), *bias = onnx_in(l, 2);
    return onnx_is_float(x->type) && !x->constant && x->n_elems && l->n_out == 1 &&
           group <= UINT32_MAX && x->n_elems / group <= UINT32_MAX &&
           is_constant_of(onnx_in(l, 1), x->type, group) &&
           (!bias || is_constant_of(bias, x->type, group));
}

// Outputs 1 and 2 are mean and inverse deviation: the input's shape with 1 from the axis on.
int onnx_lower_layer_norm(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    float epsilon = onnx_float(l, "epsilon", 1e-5f);
    uint32_t dims[GRAPH_MAX_DIMS], n = x->n_dims;
    int64_t axis, stash = onnx_int(l, "stash_type", ONNX_FLOAT);
    if (stash != ONNX_FLOAT && stash != ONNX_DOUBLE)
        return onnx_refuse(l, e, "stash_type %lld: means of fewer bits are not known",
                           (long long)stash);
    int r = onnx_axis(l, onnx_int(l, "axis", -1), n, &axis, e);
    if (r == 0)
        r = onnx_shape_like(l, 0, x, e);
    for (uint32_t i = 0; i < n; i++)
        dims[i] = i < axis ? x->dims[i] : 1;
    for (uint32_t i = 1; i < 3 && r == 0; i++)
        r = onnx_shape(l, i, TENSOR_FLOAT32, n, dims, e);
    if (r < 0)
        return r;
    uint64_t group = product_of(x->dims + axis, n - (uint32_t)axis);
    if (!group || !layer_norm_is_fast(l, group))
        return emit(l, REF_OP_LAYER_NORM, axis, &epsilon, 1, e);
    uint32_t matrix[2] = {(uint32_t)(onnx_in(l, 0)->n_elems / group), (uint32_t)group};
    return emit_matrix(l, matrix, epsilon, true, l->out[0], e);
}

// ---- InstanceNormalization ----

static bool instance_norm_is_fast(const struct onnx_lowering *l)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    return x->type == TENSOR_FLOAT32 && !x->constant && x->n_elems && x->n_dims > 2 &&
           x->n_elems / x->dims[0] / x->dims[1] <= UINT32_MAX &&
           (uint64_t)x->dims[0] * x->dims[1] <= UINT32_MAX &&
           is_constant_of(onnx_in(l, 1), x->type, x->dims[1]) &&
           is_constant_of(onnx_in(l, 2), x->type, x->dims[1]);
}

// A constant of one number for each channel. Negative: no memory.
static int32_t add_filled(struct onnx_lowering *l, uint32_t channels, float value, struct error *e)
{
    float *v = pool_alloc(&l->g->pool, channels, sizeof *v);
    if (!v)
        return error_no_memory(e, "the graph", channels * sizeof *v);
    for (uint32_t i = 0; i < channels; i++)
        v[i] = value;
    return onnx_constant(l, TENSOR_FLOAT32, 1, &channels, v, e);
}

// y = normalized * scale[c] + bias[c]: a BatchNormalization of mean 0 and variance 1.
static int emit_channels(struct onnx_lowering *l, int32_t normalized, struct error *e)
{
    uint32_t channels = onnx_in(l, 0)->dims[1];
    int32_t zeros = add_filled(l, channels, 0, e), ones = add_filled(l, channels, 1, e);
    const int32_t edges[5] = {normalized, l->in[1], l->in[2], zeros, ones};
    if (zeros < 0 || ones < 0)
        return STATUS_MALLOC_FAIL;
    struct graph_node *n = onnx_emit(l, GRAPH_BATCH_NORM, edges, 5, l->out, 1, e);
    return n ? 0 : STATUS_MALLOC_FAIL; // epsilon 0
}

int onnx_lower_instance_norm(struct onnx_lowering *l, struct error *e)
{
    float epsilon = onnx_float(l, "epsilon", 1e-5f);
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    if (r < 0 || !instance_norm_is_fast(l))
        return r < 0 ? r : emit(l, REF_OP_INSTANCE_NORM, 0, &epsilon, 1, e);
    const struct graph_tensor x = *onnx_in(l, 0);
    uint32_t matrix[2] = {x.dims[0] * x.dims[1], (uint32_t)(x.n_elems / x.dims[0] / x.dims[1])};
    int32_t normalized = onnx_temporary(l, x.type, x.n_dims, x.dims, e);
    r = normalized < 0 ? normalized : emit_matrix(l, matrix, epsilon, false, normalized, e);
    return r < 0 ? r : emit_channels(l, normalized, e);
}

// ---- GroupNormalization ----

// y = normalized * scale[k] + bias[k], k the second of three dimensions.
static int emit_factors(struct onnx_lowering *l, int32_t normalized, const uint32_t dims[3],
                        struct error *e)
{
    const uint32_t column[2] = {dims[1], 1};
    int32_t product = onnx_temporary(l, TENSOR_FLOAT32, 3, dims, e);
    int32_t sum = onnx_temporary(l, TENSOR_FLOAT32, 3, dims, e);
    int32_t scale = onnx_reshaped(l, l->in[1], 2, column, e);
    int32_t bias = onnx_reshaped(l, l->in[2], 2, column, e);
    const int32_t factors[2] = {normalized, scale}, terms[2] = {product, bias};
    if (product < 0 || sum < 0 || scale < 0 || bias < 0)
        return STATUS_MALLOC_FAIL;
    return onnx_emit(l, GRAPH_MUL, factors, 2, &product, 1, e) &&
                   onnx_emit(l, GRAPH_ADD, terms, 2, &sum, 1, e) &&
                   onnx_emit(l, GRAPH_RESHAPE, &sum, 1, l->out, 1, e)
               ? 0
               : STATUS_MALLOC_FAIL;
}

// Before operator set 21 scale and bias are of groups, since then of channels.
int onnx_lower_group_norm(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor x = *onnx_in(l, 0), scale = *onnx_in(l, 1), bias = *onnx_in(l, 2);
    float epsilon = onnx_float(l, "epsilon", 1e-5f);
    int64_t groups = onnx_int(l, "num_groups", 0), wide = onnx_int(l, "stash_type", 1);
    int r = onnx_shape_like(l, 0, &x, e);
    if (r < 0)
        return r;
    if (x.type != TENSOR_FLOAT32 || x.constant || !x.n_elems || x.n_dims < 2 || wide != 1)
        return onnx_refuse(l, e,
                           "it works on float32 that is computed, of channels behind a batch");
    uint32_t channels = x.dims[1], each = l->f->opset < 21 ? (uint32_t)groups : channels;
    if (groups < 1 || groups > channels || channels % groups)
        return onnx_refuse(l, e, "num_groups %lld, of %u channels", (long long)groups, channels);
    if (scale.type != x.type || bias.type != x.type || scale.n_elems != each ||
        bias.n_elems != each)
        return onnx_refuse(l, e,
                           "scale and bias are %u numbers of float32 each in operator set %lld",
                           each, (long long)l->f->opset);
    uint64_t rows = (uint64_t)x.dims[0] * (uint64_t)groups, pixels = x.n_elems / x.dims[0] / each;
    if (rows > UINT32_MAX || pixels > UINT32_MAX || x.n_elems / rows > UINT32_MAX)
        return onnx_refuse(l, e, "it is too large");
    const uint32_t matrix[2] = {(uint32_t)rows, (uint32_t)(x.n_elems / rows)};
    const uint32_t dims[3] = {x.dims[0], each, (uint32_t)pixels};
    bool plain = each == channels && x.n_dims > 2 && scale.constant && bias.constant;
    int32_t normalized = plain ? onnx_temporary(l, x.type, x.n_dims, x.dims, e)
                               : onnx_temporary(l, x.type, 3, dims, e);
    r = normalized < 0 ? normalized : emit_matrix(l, matrix, epsilon, false, normalized, e);
    if (r < 0)
        return r;
    return plain ? emit_channels(l, normalized, e) : emit_factors(l, normalized, dims, e);
}

// ---- LRN ----

int onnx_lower_lrn(struct onnx_lowering *l, struct error *e)
{
    float reals[3] = {onnx_float(l, "alpha", 1e-4f), onnx_float(l, "beta", 0.75f),
                      onnx_float(l, "bias", 1)};
    int64_t size = onnx_int(l, "size", 0);
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    if (r == 0 && (size < 1 || size > 65535))
        return onnx_refuse(l, e, "size %lld", (long long)size);
    return r < 0 ? r : emit(l, REF_OP_LRN, size, reals, 3, e);
}

// ---- LpNormalization and MeanVarianceNormalization: parts ----

static int32_t emit_part(struct onnx_lowering *l, enum graph_ref_op op, int32_t a, int32_t b,
                         int32_t y, const int64_t *ints, uint32_t n_ints, struct error *e)
{
    const int32_t in[2] = {a, b};
    int64_t *copy = pool_alloc(&l->g->pool, n_ints, sizeof *copy);
    struct graph_node *n =
        copy && y >= 0 ? onnx_emit(l, GRAPH_REF, in, b < 0 ? 1 : 2, &y, 1, e) : NULL;
    if (!n)
        return STATUS_MALLOC_FAIL;
    memcpy(copy, ints, n_ints * sizeof *copy);
    n->on_cpu = true;
    n->ref.op = op;
    n->ref.ints = copy;
    n->ref.n_ints = n_ints;
    return y;
}

// What becomes of x along axes, which stay as 1. ints: the kind, then the axes.
static int32_t reduce_axes(struct onnx_lowering *l, int32_t x, const int64_t *ints, uint32_t n,
                           struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[x];
    uint32_t dims[GRAPH_MAX_DIMS];
    memcpy(dims, t->dims, sizeof dims);
    for (uint32_t i = 1; i < n; i++)
        dims[ints[i]] = 1;
    int32_t y = onnx_temporary(l, t->type, t->n_dims, dims, e);
    return y < 0 ? y : emit_part(l, REF_OP_REDUCE, x, -1, y, ints, n, e);
}

// Of two, in the shape of the first one.
static int32_t combine_two(struct onnx_lowering *l, int64_t kind, int32_t a, int32_t b,
                           struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[a];
    int32_t y = onnx_temporary(l, t->type, t->n_dims, t->dims, e);
    return y < 0 ? y : emit_part(l, REF_OP_BINARY, a, b, y, &kind, 1, e);
}

static int32_t number_new(struct onnx_lowering *l, float value, struct error *e)
{
    float *v = pool_alloc(&l->g->pool, 1, sizeof *v);
    if (!v)
        return error_no_memory(e, "the graph", sizeof *v);
    *v = value;
    return onnx_constant(l, TENSOR_FLOAT32, 0, (const uint32_t[1]){0}, v, e);
}

// y = a / b. b < 0: a part failed.
static int emit_quotient(struct onnx_lowering *l, int32_t a, int32_t b, struct error *e)
{
    const int64_t kind = REF_DIV;
    int r = b < 0 ? b : onnx_shape_like(l, 0, onnx_in(l, 0), e);
    return r < 0                                                           ? r
           : emit_part(l, REF_OP_BINARY, a, b, l->out[0], &kind, 1, e) < 0 ? STATUS_MALLOC_FAIL
                                                                           : 0;
}

// Zeros stay zeros, as in ONNX Runtime.
int onnx_lower_lp_norm(struct onnx_lowering *l, struct error *e)
{
    int64_t p = onnx_int(l, "p", 2), ints[2] = {p == 1 ? REF_L1 : REF_L2};
    const struct graph_tensor *x = onnx_in(l, 0);
    int r = onnx_axis(l, onnx_int(l, "axis", -1), x->n_dims, &ints[1], e);
    if (r == 0 && ((p != 1 && p != 2) || x->type != TENSOR_FLOAT32 || !x->n_elems))
        return onnx_refuse(l, e, "p is 1 or 2, and its input of floats");
    int32_t norm = r < 0 ? r : reduce_axes(l, l->in[0], ints, 2, e);
    int32_t least = norm < 0 ? norm : number_new(l, FLT_MIN, e);
    int32_t by = least < 0 ? least : combine_two(l, REF_MAX, norm, least, e);
    return emit_quotient(l, l->in[0], by, e);
}

// y = (x - mean) / (deviation + 1e-9).
int onnx_lower_mean_variance(struct onnx_lowering *l, struct error *e)
{
    int64_t ints[ONNX_MAX_SHAPE + 1] = {REF_MEAN};
    uint32_t n = 0;
    const struct graph_tensor *x = onnx_in(l, 0);
    int r = onnx_ints(l, "axes", ints + 1, &n, e);
    if (r == 0 && !onnx_has_attr(l, "axes")) {
        memcpy(ints + 1, (const int64_t[3]){0, 2, 3}, 3 * sizeof *ints);
        n = 3;
    }
    for (uint32_t i = 1; i <= n && r == 0; i++)
        r = onnx_axis(l, ints[i], x->n_dims, &ints[i], e);
    if (r == 0 && (!n || x->type != TENSOR_FLOAT32 || !x->n_elems))
        return onnx_refuse(l, e, "it has no axes, or its input is not of floats");
    int32_t mean = r < 0 ? r : reduce_axes(l, l->in[0], ints, n + 1, e);
    int32_t rest = mean < 0 ? mean : combine_two(l, REF_SUB, l->in[0], mean, e);
    int32_t square = rest < 0 ? rest : combine_two(l, REF_MUL, rest, rest, e);
    int32_t variance = square < 0 ? square : reduce_axes(l, square, ints, n + 1, e);
    int32_t half = variance < 0 ? variance : number_new(l, 0.5f, e);
    int32_t deviation = half < 0 ? half : combine_two(l, REF_POW, variance, half, e);
    int32_t least = deviation < 0 ? deviation : number_new(l, 1e-9f, e);
    int32_t by = least < 0 ? least : combine_two(l, REF_ADD, deviation, least, e);
    return emit_quotient(l, rest, by, e);
}
