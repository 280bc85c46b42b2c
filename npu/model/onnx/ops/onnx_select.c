// Operators of ONNX that choose, repeat or place elements.
#include "npu/model/onnx/onnx_lower.h"

// Broadcasts in both directions: a 1 in the wanted shape keeps the input's size.
int onnx_lower_expand(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t n, dims[GRAPH_MAX_DIMS];
    int r = onnx_in_ints(l, 1, v, &n, e);
    if (r < 0)
        return r;
    uint32_t n_dims = n > x->n_dims ? n : x->n_dims;
    if (n_dims > GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "a shape of %u dimensions", n);
    for (uint32_t i = 0; i < n_dims; i++) {
        int64_t want = i + n < n_dims ? 1 : v[i + n - n_dims];
        uint32_t own = i + x->n_dims < n_dims ? 1 : x->dims[i + x->n_dims - n_dims];
        if (want < 0 || want > UINT32_MAX || (own != 1 && want != 1 && want != own))
            return onnx_refuse(l, e, "%u elements do not become %lld", own, (long long)want);
        dims[i] = own == 1 ? (uint32_t)want : own;
    }
    r = onnx_shape(l, 0, x->type, n_dims, dims, e);
    return r < 0 ? r : onnx_emit_own(l, GRAPH_EXPAND, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// The repeats are not passed on: they follow from the shapes.
int onnx_lower_tile(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t n, dims[GRAPH_MAX_DIMS];
    int r = onnx_in_ints(l, 1, v, &n, e);
    if (r < 0)
        return r;
    if (n != x->n_dims)
        return onnx_refuse(l, e, "%u numbers for %u dimensions", n, x->n_dims);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t size = (uint64_t)x->dims[i] * (uint64_t)v[i];
        if (v[i] < 0 || v[i] > UINT32_MAX || size > UINT32_MAX)
            return onnx_refuse(l, e, "dimension %u cannot be repeated %lld times", i,
                               (long long)v[i]);
        dims[i] = (uint32_t)size;
    }
    r = onnx_shape(l, 0, x->type, n, dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_TILE, 1, NULL, 0, e);
}

// ---- Pad ----

// in[]: data and the value, if any. Before set 11 the value is an attribute, of which a constant is
// made.
static int pad_value(struct onnx_lowering *l, int32_t in[2], struct error *e)
{
    in[0] = l->in[0];
    in[1] = l->n_in > 2 ? l->in[2] : -1;
    if (in[1] >= 0 && onnx_in(l, 2)->n_elems == 0)
        in[1] = -1;
    if (!onnx_has_attr(l, "value"))
        return 0;
    float *value = pool_alloc(&l->g->pool, 1, sizeof *value);
    uint32_t one = 1;
    if (!value)
        return error_no_memory(e, "a constant", sizeof *value);
    *value = onnx_float(l, "value", 0);
    in[1] = onnx_constant(l, TENSOR_FLOAT32, 1, &one, value, e);
    return in[1] < 0 ? in[1] : 0;
}

static int pad_mode(const struct onnx_lowering *l, int64_t *ret, struct error *e)
{
    static const struct {
        const char *name;
        int64_t mode;
    } modes[] = {{"constant", PAD_CONSTANT},
                 {"reflect", PAD_REFLECT},
                 {"edge", PAD_EDGE},
                 {"wrap", PAD_WRAP}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (onnx_text_is(l, "mode", modes[i].name, "constant")) {
            *ret = modes[i].mode;
            return 0;
        }
    return onnx_refuse(l, e, "its mode is not supported");
}

// Pads of all dimensions, from those of some axes.
static int take_pads(const struct onnx_lowering *l, int64_t *begin, int64_t *end, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t v[ONNX_MAX_SHAPE], axes[ONNX_MAX_SHAPE];
    uint32_t n, n_axes = 0;
    int r = l->f->opset < 11 ? onnx_ints(l, "pads", v, &n, e) : onnx_in_ints(l, 1, v, &n, e);
    if (r == 0)
        r = onnx_in_ints(l, 3, axes, &n_axes, e);
    if (r < 0)
        return r;
    uint32_t count = n_axes ? n_axes : x->n_dims;
    if (n != 2 * count)
        return onnx_refuse(l, e, "%u pads for %u dimensions", n, count);
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = i;
        r = n_axes ? onnx_axis(l, axes[i], x->n_dims, &axis, e) : 0;
        if (r < 0)
            return r;
        begin[axis] = v[i];
        end[axis] = v[i + count];
    }
    return 0;
}

// What most Pads do: a number that the file has, around real numbers. False: it is another one.
static bool pad_plainly(struct onnx_lowering *l, const int64_t *begin, const int64_t *end,
                        int32_t value, float *ret)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    const struct graph_tensor *v = value < 0 ? NULL : &l->g->tensors[value];
    *ret = 0;
    for (uint32_t i = 0; i < x->n_dims; i++)
        if (begin[i] < 0 || end[i] < 0)
            return false;
    if (x->type != TENSOR_FLOAT32 || !x->n_elems || x->quantized)
        return false;
    if (v && (!v->constant || v->unpack || v->n_elems != 1 || v->type != TENSOR_FLOAT32))
        return false;
    if (v)
        graph_tensor_floats(v, ret);
    return true;
}

// Negative pads cut off, before anything is put around what is left. Nothing is cut where nothing
// would be left. The node's input 0 may be another one then.
static int cut_off(struct onnx_lowering *l, int64_t *begin, int64_t *end, struct error *e)
{
    const uint32_t n = onnx_in(l, 0)->n_dims;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t size = onnx_in(l, 0)->dims[i];
        if (begin[i] <= -size || end[i] <= -size)
            continue;
        const int64_t front = begin[i] < 0 ? -begin[i] : 0, behind = end[i] < 0 ? -end[i] : 0;
        if ((!front && !behind) || front + behind >= size)
            continue;
        l->in[0] =
            onnx_part(l, l->in[0], i, (uint32_t)front, (uint32_t)(size - front - behind), true, e);
        if (l->in[0] < 0)
            return l->in[0];
        begin[i] += front;
        end[i] += behind;
    }
    return 0;
}

// Pads behind follow from the output's shape.
int onnx_lower_pad(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t ints[GRAPH_MAX_DIMS + 1] = {0}, end[GRAPH_MAX_DIMS] = {0};
    uint32_t dims[GRAPH_MAX_DIMS], n = x->n_dims;
    enum tensor_type type = x->type;
    int32_t in[2];
    int r = pad_mode(l, &ints[0], e);
    if (r == 0)
        r = take_pads(l, ints + 1, end, e);
    if (r == 0)
        r = cut_off(l, ints + 1, end, e);
    x = onnx_in(l, 0);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        int64_t before = ints[1 + i], size = x->dims[i];
        if (before > INT32_MAX || end[i] > INT32_MAX || before < -size || end[i] < -size ||
            size + before + end[i] < 0)
            return onnx_refuse(l, e, "pads of %lld and %lld", (long long)before, (long long)end[i]);
        if (ints[0] == PAD_REFLECT && (before >= size || end[i] >= size))
            return onnx_refuse(l, e, "it reflects more than there is");
        dims[i] = (uint32_t)(size + before + end[i]);
    }
    if (r == 0)
        r = onnx_shape(l, 0, type, n, dims, e);
    if (r == 0)
        r = pad_value(l, in, e);
    if (r != 0)
        return r;
    l->n_in = 2;
    l->in[0] = in[0];
    l->in[1] = in[1];
    float value;
    if (ints[0] != PAD_CONSTANT || !pad_plainly(l, ints + 1, end, in[1], &value))
        return onnx_emit_ref(l, REF_OP_PAD, 2, ints, n + 1, e);
    struct graph_node *node = onnx_emit_own(l, GRAPH_PAD, 1, e);
    if (!node)
        return STATUS_MALLOC_FAIL;
    for (uint32_t i = 0; i < n; i++)
        node->pad.begin[i] = (uint32_t)ints[1 + i];
    node->pad.value = value;
    node->pad.mode = PAD_CONSTANT;
    return 0;
}

// ---- Gather and Scatter ----

// The axis is replaced by the dimensions of the indices.
int onnx_lower_gather(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *indices = onnx_in(l, 1);
    uint32_t dims[2 * GRAPH_MAX_DIMS], n = 0;
    int64_t axis;
    int r = onnx_axis(l, onnx_int(l, "axis", 0), x->n_dims, &axis, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < x->n_dims; i++) {
        if (i != axis)
            dims[n++] = x->dims[i];
        for (uint32_t k = 0; i == axis && k < indices->n_dims; k++)
            dims[n++] = indices->dims[k];
    }
    r = onnx_shape(l, 0, x->type, n, dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_GATHER, 2, &axis, 1, e);
}

// The output has the indices' shape.
int onnx_lower_gather_elements(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *indices = onnx_in(l, 1);
    int64_t axis;
    int r = onnx_axis(l, onnx_int(l, "axis", 0), x->n_dims, &axis, e);
    if (r == 0)
        r = onnx_shape(l, 0, x->type, indices->n_dims, indices->dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_GATHER_ELEMENTS, 2, &axis, 1, e);
}

// indices [..., depth]: each line names the first `depth` dimensions behind the batch, and gets
// what is left.
int onnx_lower_gather_nd(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *indices = onnx_in(l, 1);
    int64_t batch = onnx_int(l, "batch_dims", 0);
    uint32_t dims[2 * GRAPH_MAX_DIMS], n = 0;
    uint32_t depth = indices->n_dims ? indices->dims[indices->n_dims - 1] : 0;
    if (!indices->n_dims || batch < 0 || (uint64_t)batch + depth > x->n_dims)
        return onnx_refuse(l, e, "its indices do not fit its input");
    for (uint32_t i = 0; i + 1 < indices->n_dims; i++)
        dims[n++] = indices->dims[i];
    for (uint32_t i = (uint32_t)batch + depth; i < x->n_dims; i++)
        dims[n++] = x->dims[i];
    int r = onnx_shape(l, 0, x->type, n, dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_GATHER_ND, 2, &batch, 1, e);
}

// What happens to an element that is hit: replaced, added to, multiplied.
static int take_reduction(const struct onnx_lowering *l, int64_t *ret, struct error *e)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < 5; i++)
        if (onnx_text_is(l, "reduction", names[i], "none")) {
            *ret = i;
            return 0;
        }
    return onnx_refuse(l, e, "its reduction is not supported");
}

// A copy of the data with elements replaced: its shape is the data's.
int onnx_lower_scatter(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t ints[2];
    int r = onnx_axis(l, onnx_int(l, "axis", 0), x->n_dims, &ints[0], e);
    if (r == 0)
        r = take_reduction(l, &ints[1], e);
    if (r == 0)
        r = onnx_shape_like(l, 0, x, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_SCATTER_ELEMENTS, 3, ints, 2, e);
}

int onnx_lower_scatter_nd(struct onnx_lowering *l, struct error *e)
{
    int64_t ints[2] = {0};
    int r = take_reduction(l, &ints[1], e);
    if (r == 0)
        r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_SCATTER_ND, 3, ints, 2, e);
}

// Keeps the upper or lower triangle, from the k-th diagonal on.
int onnx_lower_trilu(struct onnx_lowering *l, struct error *e)
{
    int64_t ints[2] = {onnx_int(l, "upper", 1)}, k[ONNX_MAX_SHAPE];
    uint32_t n;
    int r = onnx_in_ints(l, 1, k, &n, e);
    if (r == 0)
        r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    ints[1] = n ? k[0] : 0;
    if (ints[1] > INT32_MAX || ints[1] < INT32_MIN)
        return onnx_refuse(l, e, "diagonal %lld", (long long)ints[1]);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_TRILU, 1, ints, 2, e);
}

// ---- DepthToSpace and SpaceToDepth: a reshape, a transposition, a reshape ----

// x -> `apart` -> transposed by `perm` -> `dims`.
static int three_steps(struct onnx_lowering *l, const uint32_t apart[6], const uint32_t perm[6],
                       const uint32_t dims[4], struct error *e)
{
    enum tensor_type type = onnx_in(l, 0)->type;
    uint32_t turned[6];
    for (int i = 0; i < 6; i++)
        turned[i] = apart[perm[i]];
    int r = onnx_shape(l, 0, type, 4, dims, e);
    int32_t a = r < 0 ? r : onnx_temporary(l, type, 6, apart, e);
    int32_t b = a < 0 ? a : onnx_temporary(l, type, 6, turned, e);
    if (b < 0)
        return b;
    if (!onnx_emit(l, GRAPH_RESHAPE, l->in, 1, &a, 1, e))
        return STATUS_MALLOC_FAIL;
    struct graph_node *n = onnx_emit(l, GRAPH_TRANSPOSE, &a, 1, &b, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    memcpy(n->perm, perm, 6 * sizeof *perm);
    return onnx_emit(l, GRAPH_RESHAPE, &b, 1, l->out, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// Blocks of b x b pixels and b * b groups of channels. DCR and CRD: whether the block's position or
// the channel comes first in the channels' order.
int onnx_lower_depth_space(struct onnx_lowering *l, struct error *e)
{
    static const uint32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    static const uint32_t back[] = {0, 3, 5, 1, 2, 4};
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t size = onnx_int(l, "blocksize", 0);
    if (x->n_dims != 4 || size < 1 || size > 4096)
        return onnx_refuse(l, e, "its input is not an image, or blocksize %lld", (long long)size);
    uint32_t b = (uint32_t)size, n = x->dims[0], c = x->dims[1], h = x->dims[2], w = x->dims[3];
    if (l->operator->argument) {
        if (h % b || w % b)
            return onnx_refuse(l, e, "its image cannot be cut into blocks of %u", b);
        return three_steps(l, (uint32_t[]){n, c, h / b, b, w / b, b}, back,
                           (uint32_t[]){n, c * b * b, h / b, w / b}, e);
    }
    if (c % (b * b))
        return onnx_refuse(l, e, "%u channels do not make blocks of %u", c, b);
    uint32_t left = c / (b * b), dims[] = {n, left, h * b, w * b};
    if (onnx_text_is(l, "mode", "CRD", "DCR"))
        return three_steps(l, (uint32_t[]){n, left, b, b, h, w}, crd, dims, e);
    return three_steps(l, (uint32_t[]){n, b, b, left, h, w}, dcr, dims, e);
}
