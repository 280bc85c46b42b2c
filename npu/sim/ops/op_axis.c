// Operators along one axis: ReduceMean, Gather, GatherElements. Tensors are seen as
// [outer][size][inner] (nd_axis) and worked on as floats (plain.h); rounding is that of
// elements_store(). Gather moves bytes where both sides have the same form. Tested by
// test_sim_cases_reduce, _index and _edges, and by test_onnx_nodes.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plain.h"

// State of a step on floats: copies in and out, and the tensor as (outer, size, inner).
struct plain_step {
    struct plain in[2], out[1];
    struct nd_axis axis;
    size_t bytes; // Gather: of an element, where bytes are moved as they are; else 0
};

// NULL: refused, and *e is set.
static struct plain_step *plain_step_new(struct step *s, uint32_t n_in, uint32_t n_out,
                                         struct error *e)
{
    struct plain_step *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p) {
        error_no_memory(e, "a step", sizeof *p);
        return NULL;
    }
    for (uint32_t i = 0; i < n_in; i++)
        if (plain_input(s, i, &p->in[i], e) < 0)
            return NULL;
    for (uint32_t i = 0; i < n_out; i++)
        if (plain_output(s, i, &p->out[i], e) < 0)
            return NULL;
    return p;
}

static int take_axis(const struct step *s, struct plain_step *p, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    if (s->node->axis < 0 || (uint32_t)s->node->axis >= x->n_dims || !x->n_elems)
        return step_refuse(s, e, "it has no valid axis, or nothing to work on");
    p->axis = nd_axis(x, (uint32_t)s->node->axis);
    return 0;
}

// ---- ReduceMean ----

// y = Σ x / n, added in float in the order in which the input is stored (a line of floats that has
// one sum: in LANES sums): a stride of 0 for the reduced dimensions makes one loop do every choice
// of axes.
#define LANES 32

// The input is read in its stored order, in which the sums are, too: so rows are added to rows.
struct mean {
    struct nd nd;    // operand 0: the input, operand 1: the sums
    struct nd order; // operand 0: the sums, operand 1: the output, in the order of its dimensions
    struct element_form from;
    size_t size; // bytes of an element
    uint64_t sums_at;
    bool as_stored; // the output lies as the sums do
    struct plain out;
};

// The strides of what is left of x, in the order in which x is stored; 0: reduced.
static void strides_of_sums(const struct graph_tensor *x, uint32_t axes, int64_t *ret)
{
    int64_t own[GRAPH_MAX_DIMS], step = 1;
    bool done[GRAPH_MAX_DIMS] = {false};
    graph_tensor_strides(x, own);
    for (uint32_t k = 0; k < x->n_dims; k++) {
        uint32_t next = x->n_dims;
        for (uint32_t i = 0; i < x->n_dims; i++)
            if (!done[i] && (next == x->n_dims || own[i] < own[next]))
                next = i;
        bool reduced = axes >> next & 1;
        done[next] = true;
        ret[next] = reduced ? 0 : step;
        step *= reduced ? 1 : x->dims[next];
    }
}

// Whether y is stored in the order of the sums. `order` has a dimension for each of x, and y has as
// many, or has lost those of 1.
static bool lies_alike(const struct graph_tensor *y, const struct nd *order)
{
    int64_t own[GRAPH_MAX_DIMS];
    uint32_t k = 0;
    graph_tensor_strides(y, own);
    for (uint32_t i = 0; i < order->n_dims; i++) {
        if (order->dims[i] == 1)
            continue;
        while (k < y->n_dims && y->dims[k] == 1)
            k++;
        if (k == y->n_dims || y->dims[k] != order->dims[i] || own[k] != order->strides[0][i])
            return false;
        k++;
    }
    return true;
}

static int prepare_reduce_mean(struct step *s, struct error *e)
{
    struct mean *p = s->state = step_alloc(s, 1, sizeof *p);
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    int64_t steps[GRAPH_MAX_DIMS], stored[GRAPH_MAX_DIMS], step = 1;
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!element_type_known(x->type))
        return step_refuse(s, e, "its input has a type that is not supported");
    for (uint32_t i = x->n_dims; i-- > 0;) {
        bool reduced = s->node->axes >> i & 1;
        steps[i] = reduced ? 0 : step;
        step *= reduced ? 1 : x->dims[i];
    }
    if ((uint64_t)step != y->n_elems || !x->n_elems)
        return step_refuse(s, e, "its output has not the size of its reduced input");
    p->from = element_form(x);
    p->size = tensor_type_size(x->type);
    strides_of_sums(x, s->node->axes, stored);
    nd_init(&p->nd, x);
    nd_add(&p->nd, stored);
    nd_simplify(&p->nd);
    nd_init(&p->order, x);
    memcpy(p->order.strides[0], stored, sizeof stored);
    nd_add(&p->order, steps);
    for (uint32_t i = 0; i < x->n_dims; i++)
        p->order.dims[i] = s->node->axes >> i & 1 ? 1 : p->order.dims[i];
    p->as_stored = lies_alike(y, &p->order);
    nd_simplify(&p->order);
    int r = step_scratch(s, y->n_elems * sizeof(float), &p->sums_at, e);
    return r < 0 ? r : plain_output(s, 0, &p->out, e);
}

// Adds a row to the sums: element by element (1), strided, or all into one (0).
KERNEL(void, add_values, (float *restrict sums, int64_t step, const float *restrict v, size_t n),
       (sums, step, v, n))
{
    float sum = *sums;
    if (step == 1)
        for (size_t i = 0; i < n; i++)
            sums[i] += v[i];
    else if (step)
        for (size_t i = 0; i < n; i++)
            sums[(int64_t)i * step] += v[i];
    else {
        for (size_t i = 0; i < n; i++)
            sum += v[i];
        *sums = sum;
    }
}

// A line in LANES sums, so that none waits for the one before.
KERNEL(float, sum_of_floats, (const float *v, size_t n), (v, n))
{
    float lanes[LANES] = {0}, all = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += v[i + k];
    for (; i < n; i++)
        all += v[i];
    for (size_t k = 0; k < LANES; k++)
        all += lanes[k];
    return all;
}

static void add_row(const struct mean *p, const uint8_t *from, float *sums)
{
    float v[ELEMENTS_CHUNK];
    int64_t step = nd_stride(&p->nd, 1);
    size_t row = nd_inner(&p->nd);
    bool floats = p->from.type == TENSOR_FLOAT32 && !p->from.quantized;
    if (floats && (uintptr_t)from % sizeof(float) == 0) {
        const float *line = (const float *)(const void *)from;
        if (step)
            add_values(sums, step, line, row);
        else
            *sums += sum_of_floats(line, row);
        return;
    }
    for (size_t done = 0; done < row; done += ELEMENTS_CHUNK) {
        size_t n = row - done < ELEMENTS_CHUNK ? row - done : ELEMENTS_CHUNK;
        elements_load(&p->from, from + done * p->size, n, v);
        add_values(sums + (int64_t)done * step, step, v, n);
    }
}

static int run_reduce_mean(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct mean *p = s->state;
    size_t n_from = step_input(s, 0)->n_elems, n = step_output(s, 0)->n_elems;
    const uint8_t *from = run_input(s, r, 0);
    float *sums = run_scratch(r, p->sums_at), *to = plain_values(s, r, &p->out);
    struct element_form form = element_form(step_output(s, 0));
    struct nd_position at;
    memset(sums, 0, n * sizeof *sums);
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        add_row(p, from + at.offset[0] * (int64_t)p->size, sums + at.offset[1]);
    for (size_t k = 0; k < n; k++)
        sums[k] *= (float)n / (float)n_from;
    if (p->as_stored) {
        elements_store(&form, run_output(s, r, 0), n, sums);
        return 0;
    }
    for (nd_start(&p->order, &at); !at.end; nd_next(&p->order, &at))
        for (size_t k = 0; k < nd_inner(&p->order); k++)
            to[at.offset[1] + (int64_t)k * nd_stride(&p->order, 1)] =
                sums[at.offset[0] + (int64_t)k * nd_stride(&p->order, 0)];
    plain_store(s, r, &p->out);
    return 0;
}

// ---- Gather and GatherElements ----

// Gather:         y[o, k, i] = x[o, index[k], i]
// GatherElements: y[o, k, i] = x[o, index[o, k, i], i]

// Whether pieces of the tensor as it lies are pieces of the output as it will lie: then their bytes
// are moved, instead of the whole tensor being converted.
static bool gathers_bytes(const struct step *s)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    bool same = x->type == y->type && x->quantized == y->quantized &&
                (!x->quantized || (x->scale == y->scale && x->zp == y->zp));
    return same && !x->channels_last && !y->channels_last && !(x->constant && x->unpack);
}

static int prepare_gather(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *indices = step_input(s, 1);
    const struct graph_tensor *y = step_output(s, 0);
    if (!x || !y || !element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "a tensor is missing or its type is not supported");
    bool bytes = gathers_bytes(s);
    struct plain_step *p = plain_step_new(s, 0, 0, e);
    if (!p)
        return STATUS_MODEL_INVALID;
    p->bytes = bytes ? tensor_type_size(x->type) : 0;
    int r = plain_input(s, 1, &p->in[1], e);
    if (r == 0 && !bytes)
        r = plain_input(s, 0, &p->in[0], e);
    if (r == 0 && !bytes)
        r = plain_output(s, 0, &p->out[0], e);
    if (r == 0)
        r = take_axis(s, p, e);
    if (r < 0)
        return r;
    if (y->n_elems != p->axis.outer * p->axis.inner * indices->n_elems)
        return step_refuse(s, e, "its output does not fit its input");
    return 0;
}

// Negative indices count from the end. Indices are data: one outside the axis (or NaN) ends the run
// with an error.
static int axis_resolve(const struct step *s, float index, size_t size, size_t *ret,
                        struct error *e)
{
    float at = index < 0 ? index + (float)size : index;
    if (!(at >= 0 && at < (float)size))
        return error_set(e, STATUS_FAIL, "node %s (%s): index %g of %zu", s->node->name,
                         s->node->type, (double)index, size);
    *ret = (size_t)at;
    return 0;
}

static int run_gather(const struct step *s, struct run *r, struct error *e)
{
    const struct plain_step *p = s->state;
    const float *indices = plain_load(s, r, &p->in[1]);
    const uint8_t *x = p->bytes ? run_input(s, r, 0) : (const uint8_t *)plain_load(s, r, &p->in[0]);
    uint8_t *y = p->bytes ? run_output(s, r, 0) : (uint8_t *)plain_values(s, r, &p->out[0]);
    struct nd_axis a = p->axis;
    size_t n = step_input(s, 1)->n_elems, at = 0;
    size_t piece = a.inner * (p->bytes ? p->bytes : sizeof(float));
    for (size_t o = 0; o < a.outer; o++)
        for (size_t k = 0; k < n; k++) {
            int status = axis_resolve(s, indices[k], a.size, &at, e);
            if (status < 0)
                return status;
            memcpy(y + (o * n + k) * piece, x + (o * a.size + at) * piece, piece);
        }
    if (!p->bytes)
        plain_store(s, r, &p->out[0]);
    return 0;
}

// Indices have the shape of the input but along the axis.
static int prepare_gather_elements(struct step *s, struct error *e)
{
    struct plain_step *p = plain_step_new(s, 2, 1, e);
    if (!p)
        return STATUS_MODEL_INVALID;
    const struct graph_tensor *x = step_input(s, 0), *indices = step_input(s, 1);
    const struct graph_tensor *y = step_output(s, 0);
    int r = take_axis(s, p, e);
    if (r < 0)
        return r;
    bool fits = indices->n_dims == x->n_dims && indices->n_elems == y->n_elems;
    for (uint32_t i = 0; fits && i < x->n_dims; i++)
        fits = i == (uint32_t)s->node->axis || indices->dims[i] == x->dims[i];
    return fits ? 0 : step_refuse(s, e, "its indices do not fit its input");
}

static int run_gather_elements(const struct step *s, struct run *r, struct error *e)
{
    const struct plain_step *p = s->state;
    const float *x = plain_load(s, r, &p->in[0]), *indices = plain_load(s, r, &p->in[1]);
    float *y = plain_values(s, r, &p->out[0]);
    struct nd_axis a = p->axis;
    size_t n = step_input(s, 1)->dims[s->node->axis], from = 0;
    for (size_t k = 0; k < step_output(s, 0)->n_elems; k++) {
        size_t inner = k % a.inner, outer = k / a.inner / n;
        int status = axis_resolve(s, indices[k], a.size, &from, e);
        if (status < 0)
            return status;
        y[k] = x[(outer * a.size + from) * a.inner + inner];
    }
    plain_store(s, r, &p->out[0]);
    return 0;
}

const struct op op_reduce_mean = {.prepare = prepare_reduce_mean, .run = run_reduce_mean};
const struct op op_gather = {.prepare = prepare_gather, .run = run_gather};
const struct op op_gather_elements = {.prepare = prepare_gather_elements,
                                      .run = run_gather_elements};
