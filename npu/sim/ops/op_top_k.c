// TopK: the k first of each line along an axis, and their places. A line's real numbers are
// gathered whatever the tensor's type and layout, and turned around where the smallest are wanted.
// Of equal numbers the one that lies further in front comes first; NaN is not larger than any.
//
//   line        the best k so far are a heap whose root is the worst of them: most of what follows
//               is held against that alone, many at a time
//   then        the heap is taken apart from its root on, which sorts it
//
// Of few (TOP_K_FEW) the lines go LANES at a time, each in a lane of vectors: the best ones are
// kept in order, and each number of the line takes the place of the first that it comes before:
//
//   number i of each line    v    best[0]  best[1]  …        v before best[j]: change places
//
// Lines with NaN, whose order is that of the heap, and those that are left go one by one.
//
// Tested by test_sim_cases_index and test_onnx_nodes.
#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"
#include "tensor/transpose.h"

#define TOP_K_BLOCK 64 // how many are held against the worst of the best at a time
#define TOP_K_FEW   16
#define LANES       16

// An output; the places may be left out.
struct top_k_output {
    struct element_form form;
    size_t size;  // bytes of an element; 0: left out
    bool whole;   // written as integers
    int64_t step; // along the axis, in elements
    uint32_t index, operand;
};

struct top_k {
    struct nd nd; // lines; operand 0: the input, then the outputs that are there
    struct element_form from;
    size_t from_size, n, k;
    int64_t from_step;
    bool largest;
    struct top_k_output values, places;
    bool few;
    uint64_t line_at, order_at, numbers_at; // scratch: LANES of each, where there are few
};

// The type of places: whole numbers are written as such, others as real numbers, exact up to 2^24.
static bool top_k_counts(const struct graph_tensor *t)
{
    return t->type == TENSOR_INT64 || (t->type == TENSOR_INT32 && !t->quantized);
}

static int take_output(struct step *s, struct top_k *p, uint32_t i, struct top_k_output *ret,
                       struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, i);
    int64_t strides[GRAPH_MAX_DIMS];
    uint32_t axis = (uint32_t)s->node->axis;
    if (!y)
        return 0;
    bool fits = y->n_dims == x->n_dims && y->dims[axis] && y->dims[axis] <= x->dims[axis];
    for (uint32_t d = 0; d < x->n_dims && fits; d++)
        fits = d == axis || y->dims[d] == x->dims[d];
    if (!fits || (p->k && p->k != y->dims[axis]))
        return step_refuse(s, e, "its outputs do not fit its input");
    if (!element_type_known(y->type) && !(i == 1 && top_k_counts(y)))
        return step_refuse(s, e, "output type %s is not supported", tensor_type_name(y->type));
    graph_tensor_strides(y, strides);
    p->k = y->dims[axis];
    nd_add(&p->nd, strides);
    *ret = (struct top_k_output){.form = element_form(y),
                                 .size = tensor_type_size(y->type),
                                 .whole = i == 1 && top_k_counts(y),
                                 .step = strides[axis],
                                 .index = i,
                                 .operand = p->nd.n_operands - 1};
    return 0;
}

static int top_k_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    struct top_k *p = s->state = step_alloc(s, 1, sizeof *p);
    int64_t strides[GRAPH_MAX_DIMS];
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!element_type_known(x->type))
        return step_refuse(s, e, "its input has a type that is not supported");
    if (s->node->axis < 0 || (uint32_t)s->node->axis >= x->n_dims || !x->n_elems)
        return step_refuse(s, e, "it has no valid axis, or nothing to work on");
    p->from = element_form(x);
    p->from_size = tensor_type_size(x->type);
    graph_tensor_strides(x, strides);
    p->from_step = strides[s->node->axis];
    p->n = x->dims[s->node->axis];
    p->largest = s->node->largest;
    nd_init(&p->nd, x);
    int r = take_output(s, p, 0, &p->values, e);
    if (r == 0)
        r = take_output(s, p, 1, &p->places, e);
    p->nd.dims[s->node->axis] = 1;
    nd_simplify(&p->nd);
    p->few = p->k <= TOP_K_FEW;
    uint64_t lines = p->few ? 2 * LANES : 1;
    if (r == 0)
        r = step_scratch(s, lines * p->n * sizeof(float), &p->line_at, e);
    if (r == 0)
        r = step_scratch(s, p->k * sizeof(uint32_t), &p->order_at, e);
    return r < 0 ? r : step_scratch(s, p->k * sizeof(float), &p->numbers_at, e);
}

KERNEL(void, turn_around, (float *x, size_t n), (x, n))
{
    for (size_t i = 0; i < n; i++)
        x[i] = -x[i];
}

KERNEL(bool, any_above, (const float *x, float than, size_t n), (x, than, n))
{
    int any = 0;
    for (size_t i = 0; i < n; i++)
        any |= x[i] > than;
    return any;
}

static bool comes_before(const float *x, uint32_t a, uint32_t b)
{
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

// Puts what lies at `at` below all that come behind it.
static void sift_down(const float *x, uint32_t *heap, size_t n, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(x, heap[child], heap[child + 1]))
            child++;
        if (!comes_before(x, heap[at], heap[child]))
            return;
        uint32_t t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

// heap[0 .. k) = the places of the k largest of x[n], in order.
static void select_top(const float *x, size_t n, size_t k, uint32_t *heap)
{
    for (size_t i = 0; i < k; i++)
        heap[i] = (uint32_t)i;
    for (size_t i = k / 2; i-- > 0;)
        sift_down(x, heap, k, i);
    for (size_t at = k, part; at < n; at += part) {
        part = n - at < TOP_K_BLOCK ? n - at : TOP_K_BLOCK;
        bool any = any_above(x + at, x[heap[0]], part);
        for (size_t i = at; any && i < at + part; i++)
            if (x[i] > x[heap[0]]) {
                heap[0] = (uint32_t)i;
                sift_down(x, heap, k, 0);
            }
    }
    for (size_t left = k; left-- > 1;) {
        uint32_t worst = heap[0];
        heap[0] = heap[left];
        heap[left] = worst;
        sift_down(x, heap, left, 0);
    }
}

static void store_values(const struct top_k *p, const float *x, const uint32_t *order,
                         float *numbers, uint8_t *to)
{
    for (size_t i = 0; i < p->k; i++)
        numbers[i] = p->largest ? x[order[i]] : -x[order[i]];
    elements_store_strided(&p->values.form, to, p->values.step, p->k, numbers);
}

static void store_places(const struct top_k *p, const uint32_t *order, float *numbers, uint8_t *to)
{
    const struct top_k_output *o = &p->places;
    for (size_t i = 0; i < p->k && o->whole; i++) {
        int64_t place = order[i]; // little-endian: an int32 is its first half
        memcpy(to + (int64_t)i * o->step * (int64_t)o->size, &place, o->size);
    }
    for (size_t i = 0; i < p->k && !o->whole; i++)
        numbers[i] = (float)order[i];
    if (!o->whole)
        elements_store_strided(&o->form, to, o->step, p->k, numbers);
}

// ---- many lines of which few are wanted ----

// Of each lane, in order.
struct few {
    float best[TOP_K_FEW][LANES];
    int32_t places[TOP_K_FEW][LANES];
};

// Lanes of x are lines. False: there is a NaN.
KERNEL(bool, select_few, (const float *restrict x, size_t n, size_t k, struct few *restrict few),
       (x, n, k, few))
{
    int nan = 0;
    for (size_t i = 0; i < n; i++, x += LANES) {
        float v[LANES];
        int32_t place[LANES];
        size_t kept = i < k ? i : k;
        for (size_t l = 0; l < LANES; l++) {
            v[l] = x[l];
            place[l] = (int32_t)i;
            nan |= v[l] != v[l];
        }
        for (size_t j = 0; j < kept; j++) {
            float *best = few->best[j];
            int32_t *places = few->places[j];
            for (size_t l = 0; l < LANES; l++) {
                bool first = (v[l] > best[l]) | ((v[l] == best[l]) & (place[l] < places[l]));
                float after = first ? best[l] : v[l];
                int32_t place_after = first ? places[l] : place[l];
                best[l] = first ? v[l] : best[l];
                places[l] = first ? place[l] : places[l];
                v[l] = after;
                place[l] = place_after;
            }
        }
        if (i < k) {
            memcpy(few->best[i], v, sizeof v);
            memcpy(few->places[i], place, sizeof place);
        }
    }
    return !nan;
}

// LANES lines, `next` elements from each other, as lanes.
static const float *load_lanes(const struct top_k *p, const uint8_t *from, int64_t next, float *x)
{
    float *lines = x + p->n * LANES;
    for (size_t i = 0; i < p->n && next == 1; i++)
        elements_load(&p->from, from + (int64_t)i * p->from_step * (int64_t)p->from_size, LANES,
                      x + i * LANES);
    for (size_t l = 0; l < LANES && next != 1; l++)
        elements_load_strided(&p->from, from + (int64_t)l * next * (int64_t)p->from_size,
                              p->from_step, p->n, lines + l * p->n);
    if (next != 1)
        transpose_matrix(lines, (ptrdiff_t)(p->n * sizeof *x), x, LANES * sizeof *x, LANES, p->n,
                         sizeof *x);
    if (!p->largest)
        turn_around(x, p->n * LANES);
    return x;
}

static void store_lanes(const struct top_k *p, const struct top_k_output *o,
                        const float numbers[][LANES], int64_t next, uint8_t *to)
{
    float lines[LANES * TOP_K_FEW];
    int64_t size = (int64_t)o->size, k = (int64_t)p->k;
    for (int64_t i = 0; i < k && next == 1; i++)
        elements_store(&o->form, to + i * o->step * size, LANES, numbers[i]);
    if (next == 1)
        return;
    for (size_t i = 0; i < LANES * p->k; i++)
        lines[i] = numbers[i % p->k][i / p->k];
    if (next == k && o->step == 1) {
        elements_store(&o->form, to, LANES * p->k, lines);
        return;
    }
    for (int64_t l = 0; l < LANES; l++)
        elements_store_strided(&o->form, to + l * next * size, o->step, p->k, lines + l * k);
}

static void store_lane_places(const struct top_k *p, const struct few *few, int64_t next,
                              uint8_t *to)
{
    const struct top_k_output *o = &p->places;
    float numbers[TOP_K_FEW][LANES];
    for (size_t i = 0; i < p->k; i++)
        for (size_t l = 0; l < LANES; l++) {
            int64_t place = few->places[i][l];
            int64_t at = (int64_t)l * next + (int64_t)i * o->step;
            numbers[i][l] = (float)place;
            if (o->whole)
                memcpy(to + at * (int64_t)o->size, &place, o->size);
        }
    if (!o->whole)
        store_lanes(p, o, (const float(*)[LANES])numbers, next, to);
}

// ---- running ----

// Where the i-th line of an inner loop begins.
static uint8_t *line_of(const struct step *s, const struct run *r, const struct top_k_output *o,
                        const struct nd_position *at, int64_t i)
{
    const struct top_k *p = s->state;
    int64_t element = at->offset[o->operand] + i * nd_stride(&p->nd, o->operand);
    return (uint8_t *)run_output(s, r, o->index) + element * (int64_t)o->size;
}

// The i-th line's input.
static const uint8_t *line_from(const struct step *s, const struct run *r,
                                const struct nd_position *at, int64_t i)
{
    const struct top_k *p = s->state;
    int64_t element = at->offset[0] + i * nd_stride(&p->nd, 0);
    return (const uint8_t *)run_input(s, r, 0) + element * (int64_t)p->from_size;
}

static void run_line(const struct step *s, struct run *r, const struct nd_position *at, int64_t i)
{
    const struct top_k *p = s->state;
    float *line = run_scratch(r, p->line_at), *numbers = run_scratch(r, p->numbers_at);
    uint32_t *order = run_scratch(r, p->order_at);
    elements_load_strided(&p->from, line_from(s, r, at, i), p->from_step, p->n, line);
    if (!p->largest)
        turn_around(line, p->n);
    select_top(line, p->n, p->k, order);
    store_values(p, line, order, numbers, line_of(s, r, &p->values, at, i));
    if (p->places.size)
        store_places(p, order, numbers, line_of(s, r, &p->places, at, i));
}

// LANES lines from the i-th on. False: they must go one by one.
static bool run_lanes(const struct step *s, struct run *r, const struct nd_position *at, int64_t i)
{
    const struct top_k *p = s->state;
    const struct top_k_output *v = &p->values, *o = &p->places;
    struct few few;
    const float *x =
        load_lanes(p, line_from(s, r, at, i), nd_stride(&p->nd, 0), run_scratch(r, p->line_at));
    if (!select_few(x, p->n, p->k, &few))
        return false;
    if (!p->largest)
        turn_around(few.best[0], p->k * LANES);
    store_lanes(p, v, (const float(*)[LANES])few.best, nd_stride(&p->nd, v->operand),
                line_of(s, r, v, at, i));
    if (o->size)
        store_lane_places(p, &few, nd_stride(&p->nd, o->operand), line_of(s, r, o, at, i));
    return true;
}

static int top_k_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct top_k *p = s->state;
    int64_t n = (int64_t)nd_inner(&p->nd);
    struct nd_position at;
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        for (int64_t i = 0, together; i < n; i += together) {
            together = p->few && i + LANES <= n ? LANES : 1;
            if (together == LANES && run_lanes(s, r, &at, i))
                continue;
            for (int64_t l = i; l < i + together; l++)
                run_line(s, r, &at, l);
        }
    return 0;
}

const struct op op_top_k = {.prepare = top_k_prepare, .run = top_k_run};
