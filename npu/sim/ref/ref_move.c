// Operators that choose or place elements: Gather, GatherElements, GatherND, their Scatter
// counterparts, Pad, Tile, Trilu, ReverseSequence. Nothing is rounded. Indices are data, known only
// when the model runs: one outside its axis ends the run with an error, as in ONNX Runtime. Tests:
// test_onnx_nodes (ONNX's own cases), test_sim_cases_index and _cpu (.rknn).
#include <math.h>

#include "npu/sim/ref/ref.h"

#define INTS(c) ((c)->node->ref.ints)

static bool same_kind(const struct ref_call *c, uint32_t i)
{
    return c->in[i].t && c->in[i].t->type == c->out[0].t->type;
}

int ref_resolve(const struct ref_call *c, int64_t index, uint64_t size, uint64_t *ret,
                struct error *e)
{
    int64_t at = index < 0 ? index + (int64_t)size : index;
    if (at < 0 || at >= (int64_t)size)
        return ref_fail(c, e, "index %lld of %llu", (long long)index, (unsigned long long)size);
    *ret = (uint64_t)at;
    return 0;
}

static int check_axis(const struct ref_call *c, struct error *e)
{
    if (!same_kind(c, 0) || INTS(c)[0] < 0 || INTS(c)[0] >= c->in[0].t->n_dims || !c->in[1].t ||
        c->in[1].real)
        return ref_refuse(c, e, "it has no valid axis or indices");
    return 0;
}

// ---- Gather: ints: axis ----

static int check_gather(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    int r = check_axis(c, e);
    if (r < 0)
        return r;
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)INTS(c)[0]);
    if (c->out[0].t->n_elems != a.outer * a.inner * c->in[1].t->n_elems)
        return ref_refuse(c, e, "its output does not fit its inputs");
    return 0;
}

// y[o, k, i] = x[o, index[k], i], with x as (outer, axis, inner).
static int run_gather(struct ref_call *c, struct error *e)
{
    struct nd_axis a = nd_axis(c->in[0].t, (uint32_t)INTS(c)[0]);
    uint64_t n = c->in[1].t->n_elems, at = 0;
    for (uint64_t o = 0; o < a.outer; o++)
        for (uint64_t k = 0; k < n; k++) {
            int r = ref_resolve(c, c->in[1].v[k].i, a.size, &at, e);
            if (r < 0)
                return r;
            memcpy(c->out[0].v + (o * n + k) * a.inner, c->in[0].v + (o * a.size + at) * a.inner,
                   a.inner * sizeof(union ref_value));
        }
    return 0;
}

// ---- GatherElements and ScatterElements: ints: axis, reduction ----

// Indices have the rank of the input and, but for the axis, no dimension larger than it.
static int check_elements(const struct ref_call *c, const struct graph_tensor *like,
                          struct error *e)
{
    const struct graph_tensor *x = c->in[0].t, *indices = c->in[1].t;
    int r = check_axis(c, e);
    bool fits = r == 0 && indices->n_dims == x->n_dims && like && like->n_elems == indices->n_elems;
    for (uint32_t i = 0; fits && i < x->n_dims; i++)
        fits = i == INTS(c)[0] || indices->dims[i] <= x->dims[i];
    return fits ? 0 : ref_refuse(c, e, "its indices do not fit its input");
}

static int check_gather_elements(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    return check_elements(c, c->out[0].t, e);
}

static int check_scatter_elements(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    if (!same_kind(c, 2) || c->in[0].t->n_elems != c->out[0].t->n_elems)
        return ref_refuse(c, e, "its updates do not fit its input");
    return check_elements(c, c->in[2].t, e);
}

// Scatter's reduction: 0 replace, 1 add, 2 multiply, 3 the larger, 4 the smaller one. Integers
// wrap; NaN is larger and smaller than all else.
static void move_combine(const struct ref_call *c, int64_t how, union ref_value *to,
                         union ref_value v)
{
    bool real = c->in[0].real;
    if (how == 1 && real)
        to->r += v.r;
    else if (how == 1)
        to->i = (int64_t)((uint64_t)to->i + (uint64_t)v.i);
    else if (how == 2 && real)
        to->r *= v.r;
    else if (how == 2)
        to->i = (int64_t)((uint64_t)to->i * (uint64_t)v.i);
    else if (how == 3)
        *to = (real ? v.r > to->r || isnan(v.r) : v.i > to->i) ? v : *to;
    else if (how == 4)
        *to = (real ? v.r < to->r || isnan(v.r) : v.i < to->i) ? v : *to;
    else
        *to = v;
}

// y[i, j] = x[index[i, j], j] for axis 0 and two dimensions; scatter writes there instead. Operand
// 0 of the walk is the element of x with the axis' own index left out.
static int walk_elements(struct ref_call *c, bool scatter, struct error *e)
{
    struct ref_walk w;
    uint32_t axis = (uint32_t)INTS(c)[0];
    int64_t strides[GRAPH_MAX_DIMS];
    ref_strides(c->in[0].t, strides);
    ref_walk_init(&w, c->in[1].t);
    memcpy(w.strides[0], strides, sizeof strides);
    w.strides[0][axis] = 0;
    w.n_operands = 1;
    for (uint64_t k = 0; k < c->in[1].t->n_elems; k++, ref_walk_next(&w)) {
        uint64_t index = 0;
        int r = ref_resolve(c, c->in[1].v[k].i, c->in[0].t->dims[axis], &index, e);
        if (r < 0)
            return r;
        int64_t at = w.at[0] + (int64_t)index * strides[axis];
        if (scatter)
            move_combine(c, INTS(c)[1], &c->out[0].v[at], c->in[2].v[k]);
        else
            c->out[0].v[k] = c->in[0].v[at];
    }
    return 0;
}

static int run_gather_elements(struct ref_call *c, struct error *e)
{
    return walk_elements(c, false, e);
}

static int run_scatter_elements(struct ref_call *c, struct error *e)
{
    memcpy(c->out[0].v, c->in[0].v, c->in[0].t->n_elems * sizeof(union ref_value));
    return walk_elements(c, true, e);
}

// ---- GatherND and ScatterND: ints: batch dimensions, reduction ----

// Indices as (batches, rows, depth): each row of `depth` numbers chooses `block` contiguous
// elements of its batch.
struct nd_indices {
    uint64_t batches, rows, depth, block, data; // data: elements of one batch
};

// Splits the shapes of input and indices; false: they do not fit each other.
static bool see_nd(const struct ref_call *c, int64_t batch_dims, struct nd_indices *n)
{
    const struct graph_tensor *x = c->in[0].t, *indices = c->in[1].t;
    if (!x || !indices || c->in[1].real || !indices->n_dims || batch_dims < 0 ||
        batch_dims >= indices->n_dims || batch_dims > x->n_dims)
        return false;
    *n = (struct nd_indices){.batches = 1, .rows = 1, .block = 1, .data = 1};
    n->depth = indices->dims[indices->n_dims - 1];
    for (uint32_t i = 0; i < indices->n_dims - 1; i++)
        *(i < batch_dims ? &n->batches : &n->rows) *= indices->dims[i];
    if (n->depth + (uint64_t)batch_dims > x->n_dims)
        return false;
    for (uint32_t i = (uint32_t)batch_dims; i < x->n_dims; i++) {
        n->data *= x->dims[i];
        n->block *= i >= n->depth + (uint64_t)batch_dims ? x->dims[i] : 1;
    }
    return n->batches * n->data == x->n_elems;
}

// Offset of the block that a row of indices chooses.
static int find_block(const struct ref_call *c, const struct nd_indices *n, int64_t batch_dims,
                      uint64_t batch, uint64_t row, uint64_t *ret, struct error *e)
{
    const union ref_value *index = c->in[1].v + (batch * n->rows + row) * n->depth;
    uint64_t at = 0;
    for (uint64_t d = 0; d < n->depth; d++) {
        uint64_t size = c->in[0].t->dims[(uint64_t)batch_dims + d], own = 0;
        int r = ref_resolve(c, index[d].i, size, &own, e);
        if (r < 0)
            return r;
        at = at * size + own;
    }
    *ret = batch * n->data + at * n->block;
    return 0;
}

static int check_gather_nd(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    struct nd_indices n;
    (void)ret_extra;
    if (!same_kind(c, 0) || !see_nd(c, INTS(c)[0], &n) ||
        c->out[0].t->n_elems != n.batches * n.rows * n.block)
        return ref_refuse(c, e, "its indices do not fit its input");
    return 0;
}

// y[b, row] = the block of x that the row of indices chooses.
static int run_gather_nd(struct ref_call *c, struct error *e)
{
    struct nd_indices n;
    uint64_t at = 0;
    see_nd(c, INTS(c)[0], &n);
    for (uint64_t b = 0; b < n.batches; b++)
        for (uint64_t k = 0; k < n.rows; k++) {
            int r = find_block(c, &n, INTS(c)[0], b, k, &at, e);
            if (r < 0)
                return r;
            memcpy(c->out[0].v + (b * n.rows + k) * n.block, c->in[0].v + at,
                   n.block * sizeof(union ref_value));
        }
    return 0;
}

static int check_scatter_nd(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    struct nd_indices n;
    (void)ret_extra;
    if (!same_kind(c, 0) || !same_kind(c, 2) || !see_nd(c, 0, &n) ||
        c->in[2].t->n_elems != n.rows * n.block || c->out[0].t->n_elems != c->in[0].t->n_elems)
        return ref_refuse(c, e, "its indices do not fit its input");
    return 0;
}

// A copy of x with blocks replaced, in the order of the rows where they overlap.
static int run_scatter_nd(struct ref_call *c, struct error *e)
{
    struct nd_indices n;
    uint64_t at = 0;
    see_nd(c, 0, &n);
    memcpy(c->out[0].v, c->in[0].v, c->in[0].t->n_elems * sizeof(union ref_value));
    for (uint64_t k = 0; k < n.rows; k++) {
        int r = find_block(c, &n, 0, 0, k, &at, e);
        if (r < 0)
            return r;
        for (uint64_t i = 0; i < n.block; i++)
            move_combine(c, INTS(c)[1], &c->out[0].v[at + i], c->in[2].v[k * n.block + i]);
    }
    return 0;
}

// ---- Pad: ints: mode, elements in front of each dimension; input 1: the value ----

static int check_pad(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    (void)ret_extra;
    if (!same_kind(c, 0) || x->n_dims != y->n_dims || c->node->ref.n_ints != x->n_dims + 1 ||
        (INTS(c)[0] != PAD_CONSTANT && !x->n_elems) ||
        (c->in[1].t && (!same_kind(c, 1) || c->in[1].t->n_elems != 1)))
        return ref_refuse(c, e, "its inputs do not fit together");
    return 0;
}

// Reflection does not repeat the edge: its period is 2 * (size - 1).
int64_t ref_pad_source(int64_t mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    if (mode == PAD_CONSTANT)
        return -1;
    if (mode == PAD_EDGE || size == 1)
        return at < 0 ? 0 : size - 1;
    if (mode == PAD_WRAP)
        return (at % size + size) % size;
    int64_t period = 2 * (size - 1), inside = ((at % period) + period) % period;
    return inside < size ? inside : period - inside;
}

// Negative padding cuts: indices then begin inside the input.
static int run_pad(struct ref_call *c, struct error *e)
{
    (void)e;
    struct ref_walk w;
    const struct graph_tensor *x = c->in[0].t;
    int64_t strides[GRAPH_MAX_DIMS];
    union ref_value value = {0}; // the bits of 0.0 too
    if (c->in[1].t)
        value = *c->in[1].v;
    ref_strides(x, strides);
    ref_walk_init(&w, c->out[0].t);
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++, ref_walk_next(&w)) {
        int64_t at = 0;
        for (uint32_t i = 0; i < x->n_dims && at >= 0; i++) {
            int64_t own = (int64_t)w.index[i] - INTS(c)[1 + i];
            int64_t source = ref_pad_source(INTS(c)[0], own, x->dims[i]);
            at = source < 0 ? -1 : at + source * strides[i];
        }
        c->out[0].v[k] = at < 0 ? value : c->in[0].v[at];
    }
    return 0;
}

// ---- Tile, Trilu ----

static int check_tile(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    bool fits = same_kind(c, 0) && x->n_dims == y->n_dims;
    for (uint32_t i = 0; fits && i < x->n_dims; i++)
        fits = !y->dims[i] || (x->dims[i] && y->dims[i] % x->dims[i] == 0);
    return fits ? 0 : ref_refuse(c, e, "its output is not a multiple of its input");
}

// Index modulo the input's size; the repeats follow from the shapes.
static int run_tile(struct ref_call *c, struct error *e)
{
    (void)e;
    struct ref_walk w;
    const struct graph_tensor *x = c->in[0].t;
    int64_t strides[GRAPH_MAX_DIMS];
    ref_strides(x, strides);
    ref_walk_init(&w, c->out[0].t);
    for (uint64_t k = 0; k < c->out[0].t->n_elems; k++, ref_walk_next(&w)) {
        int64_t at = 0;
        for (uint32_t i = 0; i < x->n_dims; i++)
            at += w.index[i] % x->dims[i] * strides[i];
        c->out[0].v[k] = c->in[0].v[at];
    }
    return 0;
}

static int check_trilu(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    if (!same_kind(c, 0) || c->in[0].t->n_dims < 2 || c->in[0].t->n_elems != c->out[0].t->n_elems)
        return ref_refuse(c, e, "its input is not a matrix");
    return 0;
}

// ints: upper, diagonal. `right`: columns to the right of that diagonal.
static int run_trilu(struct ref_call *c, struct error *e)
{
    (void)e;
    struct ref_walk w;
    uint32_t n = c->in[0].t->n_dims;
    ref_walk_init(&w, c->in[0].t);
    for (uint64_t k = 0; k < c->in[0].t->n_elems; k++, ref_walk_next(&w)) {
        int64_t right = (int64_t)w.index[n - 1] - (int64_t)w.index[n - 2] - INTS(c)[1];
        bool kept = INTS(c)[0] ? right >= 0 : right <= 0;
        c->out[0].v[k] = kept ? c->in[0].v[k] : (union ref_value){0};
    }
    return 0;
}

// ---- ReverseSequence: ints: batch and time axis, which are the first two ----

static int check_reverse(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    bool fits = x && c->in[1].t && !c->in[1].real && x->n_dims >= 2 && INTS(c)[0] >= 0 &&
                INTS(c)[0] <= 1 && INTS(c)[1] == 1 - INTS(c)[0] && x->type == y->type &&
                x->n_elems == y->n_elems && c->in[1].t->n_elems == x->dims[INTS(c)[0]];
    return fits ? 0 : ref_refuse(c, e, "its inputs and axes do not fit together");
}

// The first steps of each sequence, as many as it has, come in the opposite order.
static int run_reverse(struct ref_call *c, struct error *e)
{
    const struct graph_tensor *x = c->in[0].t;
    uint64_t inner = 1, n[2] = {x->dims[0], x->dims[1]};
    for (uint32_t i = 2; i < x->n_dims; i++)
        inner *= x->dims[i];
    for (uint64_t k = 0; k < n[0] * n[1]; k++) {
        uint64_t at[2] = {k / n[1], k % n[1]}, step = at[INTS(c)[1]];
        int64_t length = c->in[1].v[at[INTS(c)[0]]].i;
        if (length < 0 || length > (int64_t)n[INTS(c)[1]])
            return ref_fail(c, e, "a sequence of %lld steps", (long long)length);
        at[INTS(c)[1]] = step < (uint64_t)length ? (uint64_t)length - 1 - step : step;
        memcpy(c->out[0].v + k * inner, c->in[0].v + (at[0] * n[1] + at[1]) * inner,
               inner * sizeof(union ref_value));
    }
    return 0;
}

const struct ref_operator ref_gather = {.check = check_gather, .run = run_gather};
const struct ref_operator ref_gather_elements = {.check = check_gather_elements,
                                                 .run = run_gather_elements};
const struct ref_operator ref_scatter_elements = {.check = check_scatter_elements,
                                                  .run = run_scatter_elements};
const struct ref_operator ref_gather_nd = {.check = check_gather_nd, .run = run_gather_nd};
const struct ref_operator ref_scatter_nd = {.check = check_scatter_nd, .run = run_scatter_nd};
const struct ref_operator ref_pad = {.check = check_pad, .run = run_pad};
const struct ref_operator ref_tile = {.check = check_tile, .run = run_tile};
const struct ref_operator ref_trilu = {.check = check_trilu, .run = run_trilu};
const struct ref_operator ref_reverse = {.check = check_reverse, .run = run_reverse};
