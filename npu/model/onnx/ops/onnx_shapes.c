// Operators of ONNX that make constants, or read, change or cut shapes. Shapes are known when a
// model is loaded, so Shape and Size become constants, and a Reshape costs nothing but a node.
#include "npu/model/onnx/onnx_lower.h"
#include "npu/model/onnx/onnx_names.h"

// ---- constants ----

// The value is in one of several attributes; those of numbers are wrapped as a tensor. Texts and
// sparse values are refused.
int onnx_lower_constant(struct onnx_lowering *l, struct error *e)
{
    struct graph_tensor *y = &l->g->tensors[l->out[0]];
    const char *name = y->name;
    const struct onnx_node *n = l->node;
    for (uint32_t i = 0; i < n->n_attrs; i++) {
        const struct onnx_attr *a = &n->attrs[i];
        struct onnx_tensor t = {.name = name, .type = ONNX_FLOAT};
        int r = 0;
        if (strcmp(a->name, "value") == 0) {
            r = onnx_tensor_read(l->f, a->t, &t, e);
        } else if (strcmp(a->name, "value_float") == 0) {
            t.raw = (struct bytes){(const uint8_t *)&a->f, sizeof a->f};
        } else if (strcmp(a->name, "value_floats") == 0) {
            t.raw = a->floats;
            t.n_dims = 1;
            t.dims[0] = (int64_t)(a->floats.size / sizeof(float));
        } else if (strcmp(a->name, "value_int") == 0) {
            t.type = ONNX_INT64;
            t.raw = (struct bytes){(const uint8_t *)&a->i, sizeof a->i};
        } else if (strcmp(a->name, "value_ints") == 0) {
            t.type = ONNX_INT64;
            t.raw = (struct bytes){(const uint8_t *)a->ints.items, a->ints.n * sizeof(int64_t)};
            t.n_dims = 1;
            t.dims[0] = a->ints.n;
        } else {
            continue;
        }
        if (r == 0)
            r = onnx_tensor_constant(l->f, &t, y, e);
        y->name = name;
        return r < 0 ? error_prefix(e, "node %s (%s)", n->name, n->op) : 0;
    }
    return onnx_refuse(l, e, "it has no value that is supported");
}

// A shape that input i holds: each size of 0 to 2^32 - 1.
static int take_shape_input(const struct onnx_lowering *l, uint32_t i, uint32_t *dims, uint32_t *n,
                            struct error *e)
{
    int64_t v[ONNX_MAX_SHAPE];
    int r = onnx_in_ints(l, i, v, n, e);
    if (r < 0)
        return r;
    if (*n > GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "a shape of %u dimensions", *n);
    for (uint32_t k = 0; k < *n; k++) {
        if (v[k] < 0 || v[k] > UINT32_MAX)
            return onnx_refuse(l, e, "a size of %lld", (long long)v[k]);
        dims[k] = (uint32_t)v[k];
    }
    return 0;
}

// One element, expanded: 0 as float without `value`.
int onnx_lower_constant_of_shape(struct onnx_lowering *l, struct error *e)
{
    static const uint8_t zero[4];
    uint32_t dims[GRAPH_MAX_DIMS], n, one = 1;
    struct graph_tensor value = {.type = TENSOR_FLOAT32, .data = {zero, 4}};
    int r = take_shape_input(l, 0, dims, &n, e);
    for (uint32_t i = 0; i < l->node->n_attrs && r == 0; i++) {
        struct onnx_tensor t;
        if (strcmp(l->node->attrs[i].name, "value") != 0)
            continue;
        r = onnx_tensor_read(l->f, l->node->attrs[i].t, &t, e);
        if (r == 0)
            r = onnx_tensor_constant(l->f, &t, &value, e);
        if (r == 0 && value.n_elems != 1)
            return onnx_refuse(l, e, "its value is not a single number");
    }
    if (r < 0)
        return r;
    int32_t x = onnx_constant(l, value.type, 1, &one, value.data.data, e);
    r = x < 0 ? x : onnx_shape(l, 0, value.type, n, dims, e);
    if (r < 0)
        return r;
    return onnx_emit(l, GRAPH_EXPAND, &x, 1, l->out, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// Dimensions start to end of the input as int64; with argument 1 (Size) the number of elements.
int onnx_lower_shape(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t n = x->n_dims, start = onnx_int(l, "start", 0), end = onnx_int(l, "end", n);
    bool size = l->operator->argument;
    start = start < 0 ? start + n : start;
    end = end < 0 ? end + n : end;
    start = start < 0 ? 0 : start > n ? n : start;
    end = end < start ? start : end > n ? n : end;
    uint32_t count = size ? 1 : (uint32_t)(end - start);
    uint8_t *data = pool_alloc(&l->g->pool, count, 8);
    if (!data)
        return error_no_memory(e, "a shape", 0);
    for (uint32_t i = 0; i < count; i++)
        write_le64(data + (size_t)8 * i, size ? x->n_elems : x->dims[start + i]);
    int r = onnx_shape(l, 0, TENSOR_INT64, size ? 0 : 1, &count, e);
    return r < 0 ? r : onnx_known(l, 0, data, e);
}

// Dropout keeps everything; before set 10 it says nothing of what it kept.
static int know_mask(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (l->f->opset < 10)
        return onnx_names_set(l->names, l->g->tensors[l->out[1]].name, -1, e);
    uint8_t *mask = pool_alloc(&l->g->pool, x->n_elems, 1);
    if (!mask)
        return error_no_memory(e, "a constant", x->n_elems);
    memset(mask, 1, x->n_elems);
    int r = onnx_shape(l, 1, TENSOR_BOOL, x->n_dims, x->dims, e);
    return r < 0 ? r : onnx_known(l, 1, mask, e);
}

// Whether input i is a constant all of whose bytes are 0.
static bool is_zero(const struct onnx_lowering *l, uint32_t i)
{
    const struct graph_tensor *t = onnx_in(l, i);
    bool zero = t && t->constant && t->data.size;
    for (size_t k = 0; zero && k < t->data.size; k++)
        zero = t->data.data[k] == 0;
    return zero;
}

// Dropout drops when it trains, and then what its ratio says.
int onnx_lower_identity(struct onnx_lowering *l, struct error *e)
{
    if (onnx_in(l, 2) && !is_zero(l, 2) && !is_zero(l, 1))
        return onnx_refuse(l, e, "training_mode is not supported");
    if (l->f->opset < 7 && l->operator->argument && !onnx_int(l, "is_test", 0))
        return onnx_refuse(l, e, "training is not supported");
    int r = l->n_out > 1 ? know_mask(l, e) : 0;
    if (r < 0)
        return r;
    return onnx_same(l, l->in[0], e);
}

// ---- the same elements in another shape ----

// A constant's data serve both shapes; other tensors get a node.
static int reshape_to(struct onnx_lowering *l, const uint32_t *dims, uint32_t n, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int r = onnx_shape(l, 0, x->type, n, dims, e);
    if (r < 0)
        return r;
    const struct graph_tensor *y = &l->g->tensors[l->out[0]];
    if (y->n_elems != x->n_elems)
        return onnx_refuse(l, e, "%llu elements do not become %llu", (unsigned long long)x->n_elems,
                           (unsigned long long)y->n_elems);
    if (x->constant)
        return onnx_known(l, 0, x->data.data, e);
    return onnx_emit_own(l, GRAPH_RESHAPE, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// 0 keeps the input's dimension (unless allowzero), one -1 takes what is left.
int onnx_lower_reshape(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t dims[GRAPH_MAX_DIMS], n, open = UINT32_MAX;
    bool keep_zero = onnx_int(l, "allowzero", 0);
    uint64_t known = 1;
    int r = onnx_in_ints(l, 1, v, &n, e);
    if (r < 0)
        return r;
    if (n > GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "a shape of %u dimensions", n);
    for (uint32_t i = 0; i < n; i++) {
        if (v[i] == 0 && !keep_zero && i >= x->n_dims)
            return onnx_refuse(l, e, "dimension %u is to be kept, but there is none", i);
        if (v[i] < -1 || v[i] > UINT32_MAX || (v[i] == -1 && open != UINT32_MAX))
            return onnx_refuse(l, e, "dimension %u is %lld", i, (long long)v[i]);
        open = v[i] == -1 ? i : open;
        dims[i] = v[i] == 0 && !keep_zero ? x->dims[i] : (uint32_t)(v[i] < 0 ? 1 : v[i]);
        if (__builtin_mul_overflow(known, dims[i], &known))
            return onnx_refuse(l, e, "its shape overflows");
    }
    if (open != UINT32_MAX) {
        if (!known || x->n_elems % known || x->n_elems / known > UINT32_MAX)
            return onnx_refuse(l, e,
                               "%llu elements do not fill the dimension that is left open (-1)",
                               (unsigned long long)x->n_elems);
        dims[open] = (uint32_t)(x->n_elems / known);
    }
    return reshape_to(l, dims, n, e);
}

// All dimensions before the axis become one, those from the axis on another.
int onnx_lower_flatten(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t axis = onnx_int(l, "axis", 1);
    uint32_t dims[2] = {1, 1};
    axis = axis < 0 ? axis + x->n_dims : axis;
    if (axis < 0 || axis > x->n_dims)
        return onnx_refuse(l, e, "axis %lld of %u dimensions", (long long)axis, x->n_dims);
    for (uint32_t i = 0; i < x->n_dims; i++)
        dims[i >= axis] *= x->dims[i];
    return reshape_to(l, dims, 2, e);
}

// Axes from input 1 or, in old sets, the attribute, as bits of *set.
static int take_axes(struct onnx_lowering *l, uint32_t n_dims, uint32_t *set, uint32_t *ret_n,
                     struct error *e)
{
    int64_t axes[ONNX_MAX_SHAPE];
    int r = l->n_in > 1 ? onnx_in_ints(l, 1, axes, ret_n, e) : onnx_ints(l, "axes", axes, ret_n, e);
    *set = 0;
    for (uint32_t i = 0; i < *ret_n && r == 0; i++) {
        r = onnx_axis(l, axes[i], n_dims, &axes[i], e);
        if (r == 0 && (*set >> axes[i] & 1))
            return onnx_refuse(l, e, "axis %lld is there twice", (long long)axes[i]);
        *set |= r == 0 ? 1u << axes[i] : 0;
    }
    return r;
}

// Without axes all dimensions of 1 are dropped.
int onnx_lower_squeeze(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    uint32_t set, n_axes, dims[GRAPH_MAX_DIMS], n = 0;
    int r = take_axes(l, x->n_dims, &set, &n_axes, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < x->n_dims; i++) {
        bool drop = n_axes ? set >> i & 1 : x->dims[i] == 1;
        if (drop && x->dims[i] != 1)
            return onnx_refuse(l, e, "dimension %u has %u elements", i, x->dims[i]);
        if (!drop)
            dims[n++] = x->dims[i];
    }
    return reshape_to(l, dims, n, e);
}

// Axes count in the output's dimensions, so their number is needed first.
int onnx_lower_unsqueeze(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t axes[ONNX_MAX_SHAPE];
    uint32_t set, n_axes, dims[GRAPH_MAX_DIMS], from = 0;
    int r =
        l->n_in > 1 ? onnx_in_ints(l, 1, axes, &n_axes, e) : onnx_ints(l, "axes", axes, &n_axes, e);
    if (r < 0)
        return r;
    if (!n_axes || x->n_dims + n_axes > GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "%u new dimensions", n_axes);
    r = take_axes(l, x->n_dims + n_axes, &set, &n_axes, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < x->n_dims + n_axes; i++)
        dims[i] = set >> i & 1 ? 1 : x->dims[from++];
    return reshape_to(l, dims, x->n_dims + n_axes, e);
}

// ---- moves ----

// Without perm the dimensions are reversed.
int onnx_lower_transpose(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t perm[ONNX_MAX_SHAPE];
    uint32_t n, dims[GRAPH_MAX_DIMS], set = 0;
    int r = onnx_ints(l, "perm", perm, &n, e);
    if (r < 0)
        return r;
    if (n && n != x->n_dims)
        return onnx_refuse(l, e, "perm has %u numbers for %u dimensions", n, x->n_dims);
    for (uint32_t i = 0; i < x->n_dims; i++) {
        perm[i] = n ? perm[i] : x->n_dims - 1 - i;
        r = onnx_axis(l, perm[i], x->n_dims, &perm[i], e);
        if (r < 0 || (set >> perm[i] & 1))
            return r < 0 ? r : onnx_refuse(l, e, "perm names a dimension twice");
        set |= 1u << perm[i];
        dims[i] = x->dims[perm[i]];
    }
    r = onnx_shape(l, 0, x->type, x->n_dims, dims, e);
    struct graph_node *node = r < 0 ? NULL : onnx_emit_own(l, GRAPH_TRANSPOSE, 1, e);
    if (!node)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    for (uint32_t i = 0; i < onnx_in(l, 0)->n_dims; i++)
        node->perm[i] = (uint32_t)perm[i];
    return 0;
}

// All but the axis must agree; of a single input it is another name.
int onnx_lower_concat(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *first = onnx_in(l, 0);
    uint32_t dims[GRAPH_MAX_DIMS];
    uint64_t sum = 0;
    int64_t axis;
    int r = onnx_axis(l, onnx_int(l, "axis", 1), first->n_dims, &axis, e);
    if (r < 0)
        return r;
    if (l->n_in == 1)
        return onnx_same(l, l->in[0], e);
    for (uint32_t i = 0; i < l->n_in; i++) {
        const struct graph_tensor *t = onnx_in(l, i);
        bool fits = t && t->n_dims == first->n_dims && t->type == first->type;
        for (uint32_t k = 0; fits && k < t->n_dims; k++)
            fits = k == axis || t->dims[k] == first->dims[k];
        if (!fits)
            return onnx_refuse(l, e, "its input %u does not fit the first", i);
        sum += t->dims[axis];
    }
    if (sum > UINT32_MAX)
        return onnx_refuse(l, e, "its output is too large");
    memcpy(dims, first->dims, sizeof dims);
    dims[axis] = (uint32_t)sum;
    // Where the first part is a constant, elements are moved into the whole from all of them.
    r = onnx_shape(l, 0, first->type, first->n_dims, dims, e);
    struct graph_node *n = r < 0 ? NULL : onnx_emit_own(l, GRAPH_CONCAT, l->n_in, e);
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    n->axis = (int32_t)axis;
    return 0;
}

// By the list of sizes, or into equal parts, of which the last may be smaller.
int onnx_lower_split(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t axis, parts[ONNX_MAX_SHAPE], sum = 0;
    uint32_t n = 0, dims[GRAPH_MAX_DIMS], n_dims = x->n_dims;
    enum tensor_type type = x->type;
    int r = onnx_axis(l, onnx_int(l, "axis", 0), n_dims, &axis, e);
    if (r == 0)
        r = l->n_in > 1 ? onnx_in_ints(l, 1, parts, &n, e) : onnx_ints(l, "split", parts, &n, e);
    if (r < 0)
        return r;
    memcpy(dims, x->dims, sizeof dims);
    int64_t all = dims[axis], each = (all + l->n_out - 1) / l->n_out;
    for (uint32_t i = 0; i < l->n_out; i++) {
        int64_t part = n ? (i < n ? parts[i] : -1) : all - sum < each ? all - sum : each;
        if (part < 0 || part > all - sum || l->out[i] < 0)
            return onnx_refuse(l, e, "it cannot be split so");
        dims[axis] = (uint32_t)part;
        sum += part;
        r = onnx_shape(l, i, type, n_dims, dims, e);
        if (r < 0)
            return r;
    }
    if (sum != all || (n && n != l->n_out))
        return onnx_refuse(l, e, "its parts do not make up the whole");
    struct graph_node *node = onnx_emit_own(l, GRAPH_SPLIT, 1, e);
    if (!node)
        return STATUS_MALLOC_FAIL;
    node->axis = (int32_t)axis;
    return 0;
}

// ---- Slice ----

struct cut {
    int64_t starts[ONNX_MAX_SHAPE], ends[ONNX_MAX_SHAPE], axes[ONNX_MAX_SHAPE];
    int64_t steps[ONNX_MAX_SHAPE];
    uint32_t n, n_ends, n_axes, n_steps;
};

// Attributes up to set 9, then inputs.
static int take_cut(const struct onnx_lowering *l, struct cut *c, struct error *e)
{
    bool old = l->f->opset < 10;
    c->n_steps = 0;
    int r =
        old ? onnx_ints(l, "starts", c->starts, &c->n, e) : onnx_in_ints(l, 1, c->starts, &c->n, e);
    if (r == 0)
        r = old ? onnx_ints(l, "ends", c->ends, &c->n_ends, e)
                : onnx_in_ints(l, 2, c->ends, &c->n_ends, e);
    if (r == 0)
        r = old ? onnx_ints(l, "axes", c->axes, &c->n_axes, e)
                : onnx_in_ints(l, 3, c->axes, &c->n_axes, e);
    if (r == 0 && !old)
        r = onnx_in_ints(l, 4, c->steps, &c->n_steps, e);
    if (r == 0 && (c->n != c->n_ends || (c->n_axes && c->n_axes != c->n) ||
                   (c->n_steps && c->n_steps != c->n)))
        return onnx_refuse(l, e, "its starts, ends, axes and steps differ in number");
    return r;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

// Start, step and number of elements in one dimension. Negative bounds count from the end; then
// both are clamped, as in Python: forwards to 0 ... size, backwards to -1 ... size - 1.
static int cut_one(const struct onnx_lowering *l, const struct cut *c, uint32_t i, int64_t size,
                   int64_t *start, int64_t *step, uint32_t *count, struct error *e)
{
    *step = c->n_steps ? c->steps[i] : 1;
    if (*step == 0 || *step == INT64_MIN)
        return onnx_refuse(l, e, "a step of %lld", (long long)*step);
    int64_t from = c->starts[i] < 0 ? clamp(c->starts[i], -size - 1, 0) + size : c->starts[i];
    int64_t to = c->ends[i] < 0 ? clamp(c->ends[i], -size - 1, 0) + size : c->ends[i];
    from = *step > 0 ? clamp(from, 0, size) : clamp(from, 0, size - 1);
    to = *step > 0 ? clamp(to, 0, size) : clamp(to, -1, size - 1);
    int64_t room = *step > 0 ? to - from : from - to, stride = *step > 0 ? *step : -*step;
    *count = size && room > 0 ? (uint32_t)((room - 1) / stride + 1) : 0;
    *start = *count ? from : 0;
    return 0;
}

// The ends are only needed for the output's shape.
int onnx_lower_slice(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    struct cut c;
    int64_t start[GRAPH_MAX_DIMS] = {0}, step[GRAPH_MAX_DIMS];
    uint32_t dims[GRAPH_MAX_DIMS];
    int r = take_cut(l, &c, e);
    memcpy(dims, x->dims, sizeof dims);
    for (uint32_t i = 0; i < GRAPH_MAX_DIMS; i++)
        step[i] = 1;
    for (uint32_t i = 0; i < c.n && r == 0; i++) {
        int64_t axis = 0;
        r = onnx_axis(l, c.n_axes ? c.axes[i] : i, x->n_dims, &axis, e);
        if (r == 0)
            r = cut_one(l, &c, i, x->dims[axis], &start[axis], &step[axis], &dims[axis], e);
    }
    if (r == 0)
        r = onnx_shape(l, 0, x->type, x->n_dims, dims, e);
    struct graph_node *n = r < 0 ? NULL : onnx_emit_own(l, GRAPH_SLICE, 1, e);
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    memcpy(n->slice.start, start, sizeof start);
    memcpy(n->slice.step, step, sizeof step);
    return 0;
}

// Batch and time are the first two dimensions.
int onnx_lower_reverse_sequence(struct onnx_lowering *l, struct error *e)
{
    const int64_t ints[2] = {onnx_int(l, "batch_axis", 1), onnx_int(l, "time_axis", 0)};
    int r = onnx_shape_like(l, 0, onnx_in(l, 0), e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_REVERSE, 2, ints, 2, e);
}
