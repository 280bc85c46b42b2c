// GatherElements, GatherND, ScatterElements and ScatterND on elements as they are stored, where
// input and output are stored alike and in the order of their dimensions, and what is scattered
// replaces what was there. The rest is the reference operator's (ref_move.c).
//
//   GatherElements    y[o, k, i] = x[o, index[o, k, i], i]       along the axis, with all other
//   ScatterElements   y = x; y[o, index[o, k, i], i] = u[o, k, i]    dimensions alike
//   GatherND          y[b, row] = the block of x[b] that the row of indices chooses
//   ScatterND         y = x; the block that the row chooses = u[row]
//
// Indices are data: one outside of its dimension ends the run with an error.
//
// Tests: test_onnx_nodes, test_sim_cases_index.
#include <string.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/ref/ref.h"
#include "npu/sim/ref/ref_bytes.h"

// Indices as they are stored.
struct places {
    const uint8_t *data;
    bool wide; // int64, else int32
};

struct index_step {
    bool scatters, elements;
    bool wide;
    size_t size; // bytes of an element
    // Elements: the tensor along the axis, and how many indices that has.
    struct nd_axis axis;
    uint64_t n_along;
    // Blocks: rows of indices of `depth` numbers, one for each of `dims`.
    uint64_t batches, rows, depth, block, data; // block and data (of a batch) in bytes
    uint32_t dims[GRAPH_MAX_DIMS];
};

// ---- indices ----

static int64_t place_at(struct places p, uint64_t k)
{
    int32_t narrow;
    int64_t wide;
    if (p.wide) {
        memcpy(&wide, p.data + k * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, p.data + k * sizeof narrow, sizeof narrow);
    return narrow;
}

static int place_refuse(const struct step *s, int64_t index, uint64_t size, struct error *e)
{
    return error_set(e, STATUS_FAIL, "node %s (%s): index %lld of %llu", s->node->name,
                     s->node->type, (long long)index, (unsigned long long)size);
}

// ---- single elements ----

// One line of indices of one `o` and `k` (or all k, where there is nothing inside of the axis):
// `between` and `within` are how far, in elements, the axis' and the line's neighbours are apart.
struct element_line {
    struct places at;
    uint64_t first, n, size, between, within;
};

// y[i] = x[at[i]], or there instead. Returns the number of elements done: less than l->n where an
// index is outside.
#define ELEMENTS_OF(name, type)                                                                    \
    static uint64_t name(const struct element_line *l, bool scatters, const uint8_t *from,         \
                         uint8_t *to)                                                              \
    {                                                                                              \
        for (uint64_t i = 0; i < l->n; i++) {                                                      \
            int64_t at = place_at(l->at, l->first + i);                                            \
            at += at < 0 ? (int64_t)l->size : 0;                                                   \
            if (at < 0 || at >= (int64_t)l->size)                                                  \
                return i;                                                                          \
            const uint64_t place = (uint64_t)at * l->between + i * l->within;                      \
            memcpy(to + (scatters ? place : i) * sizeof(type),                                     \
                   from + (scatters ? i : place) * sizeof(type), sizeof(type));                    \
        }                                                                                          \
        return l->n;                                                                               \
    }

ELEMENTS_OF(elements_1, uint8_t)
ELEMENTS_OF(elements_2, uint16_t)
ELEMENTS_OF(elements_4, uint32_t)
ELEMENTS_OF(elements_8, uint64_t)

static uint64_t elements_line(size_t size, const struct element_line *l, bool scatters,
                              const uint8_t *from, uint8_t *to)
{
    switch (size) {
    case 1:
        return elements_1(l, scatters, from, to);
    case 2:
        return elements_2(l, scatters, from, to);
    case 4:
        return elements_4(l, scatters, from, to);
    default:
        return elements_8(l, scatters, from, to);
    }
}

// `from`: x, or what is scattered; `to`: y.
static int index_elements(const struct step *s, struct places at, const uint8_t *from, uint8_t *to,
                          struct error *e)
{
    const struct index_step *p = s->state;
    const uint64_t inner = p->axis.inner, image = p->axis.size * inner * p->size;
    const uint64_t lines = inner == 1 ? 1 : p->n_along;
    struct element_line l = {.at = at,
                             .n = inner == 1 ? p->n_along : inner,
                             .size = p->axis.size,
                             .between = inner,
                             .within = inner == 1 ? 0 : 1};
    for (uint64_t o = 0; o < p->axis.outer; o++)
        for (uint64_t k = 0; k < lines; k++, l.first += l.n) {
            const uint8_t *line = from + (p->scatters ? l.first * p->size : o * image);
            uint8_t *there = to + (p->scatters ? o * image : l.first * p->size);
            const uint64_t done = elements_line(p->size, &l, p->scatters, line, there);
            if (done < l.n)
                return place_refuse(s, place_at(at, l.first + done), l.size, e);
        }
    return 0;
}

// ---- blocks ----

static int block_at(const struct step *s, struct places at, uint64_t row, uint64_t *ret,
                    struct error *e)
{
    const struct index_step *p = s->state;
    uint64_t place = 0;
    for (uint64_t d = 0; d < p->depth; d++) {
        const int64_t index = place_at(at, row * p->depth + d),
                      own = index < 0 ? index + (int64_t)p->dims[d] : index;
        if (own < 0 || own >= (int64_t)p->dims[d])
            return place_refuse(s, index, p->dims[d], e);
        place = place * p->dims[d] + (uint64_t)own;
    }
    *ret = place * p->block;
    return 0;
}

static void block_copy(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    if (bytes == sizeof(float))
        memcpy(to, from, sizeof(float));
    else
        memcpy(to, from, bytes);
}

static int index_blocks(const struct step *s, struct places at, const uint8_t *from, uint8_t *to,
                        struct error *e)
{
    const struct index_step *p = s->state;
    uint64_t place = 0;
    for (uint64_t row = 0; row < p->batches * p->rows; row++) {
        int r = block_at(s, at, row, &place, e);
        if (r < 0)
            return r;
        place += row / p->rows * p->data;
        block_copy(to + (p->scatters ? place : row * p->block),
                   from + (p->scatters ? row * p->block : place), p->block);
    }
    return 0;
}

// ---- the step ----

static bool index_is_plain(const struct graph_tensor *t)
{
    return (t->type == TENSOR_INT32 || t->type == TENSOR_INT64) && !t->natural && !t->unpack &&
           !t->quantized && !t->channels_last && t->n_elems;
}

static bool index_alike(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return ref_bytes_same(x, y) && !x->channels_last && !y->channels_last && x->n_elems &&
           y->n_elems;
}

static bool index_take_elements(const struct graph_tensor *x, const struct graph_tensor *indices,
                                const struct graph_tensor *other, int64_t axis,
                                struct index_step *p)
{
    bool fits = axis >= 0 && axis < x->n_dims && indices->n_dims == x->n_dims &&
                other->n_elems == indices->n_elems;
    for (uint32_t i = 0; i < x->n_dims && fits; i++)
        fits = i == axis || indices->dims[i] == x->dims[i];
    if (!fits)
        return false;
    p->elements = true;
    p->axis = nd_axis(x, (uint32_t)axis);
    p->n_along = indices->dims[axis];
    return true;
}

// `other`: what has a block for each row.
static bool index_take_blocks(const struct graph_tensor *x, const struct graph_tensor *indices,
                              const struct graph_tensor *other, int64_t batch_dims,
                              struct index_step *p)
{
    const uint32_t n = indices->n_dims;
    if (!n || batch_dims < 0 || batch_dims >= n || batch_dims > x->n_dims ||
        indices->dims[n - 1] + (uint64_t)batch_dims > x->n_dims)
        return false;
    p->batches = p->rows = 1;
    p->depth = indices->dims[n - 1];
    p->block = p->data = p->size;
    for (uint32_t i = 0; i < n - 1; i++)
        *(i < batch_dims ? &p->batches : &p->rows) *= indices->dims[i];
    for (uint32_t i = (uint32_t)batch_dims; i < x->n_dims; i++) {
        const uint64_t d = i - (uint64_t)batch_dims;
        p->data *= x->dims[i];
        if (d < p->depth)
            p->dims[d] = x->dims[i];
        else
            p->block *= x->dims[i];
    }
    return p->batches * p->data == x->n_elems * p->size &&
           p->batches * p->rows * p->block == other->n_elems * p->size;
}

// Describes the step in *p. False: it is none of these.
static bool index_take(const struct graph *g, const struct graph_node *n, struct index_step *p)
{
    const uint32_t op = n->op == GRAPH_REF ? n->ref.op : REF_OP_NONE;
    const bool elements = op == REF_OP_GATHER_ELEMENTS || op == REF_OP_SCATTER_ELEMENTS,
               blocks = op == REF_OP_GATHER_ND || op == REF_OP_SCATTER_ND,
               scatters = op == REF_OP_SCATTER_ELEMENTS || op == REF_OP_SCATTER_ND;
    *p = (struct index_step){.scatters = scatters};
    if (!(elements || blocks) || n->n_inputs != (scatters ? 3U : 2U) || n->n_outputs != 1 ||
        n->outputs[0] < 0)
        return false;
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] < 0)
            return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *at = &g->tensors[n->inputs[1]],
                              *y = &g->tensors[n->outputs[0]],
                              *other = scatters ? &g->tensors[n->inputs[2]] : y;
    if (!index_alike(x, y) || !index_alike(x, other) || !index_is_plain(at) ||
        (scatters && (x->n_elems != y->n_elems || n->ref.ints[1] != 0)))
        return false;
    p->size = tensor_type_size(x->type);
    p->wide = at->type == TENSOR_INT64;
    return elements ? index_take_elements(x, at, other, n->ref.ints[0], p)
                    : index_take_blocks(x, at, other, scatters ? 0 : n->ref.ints[0], p);
}

bool op_index_fits(const struct graph *g, const struct graph_node *n)
{
    struct index_step p;
    return index_take(g, n, &p);
}

static int index_prepare(struct step *s, struct error *e)
{
    struct index_step *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    return index_take(s->plan->graph, s->node, p) ? 0 : step_refuse(s, e, "its indices do not fit");
}

static int index_run(const struct step *s, struct run *r, struct error *e)
{
    const struct index_step *p = s->state;
    const struct places at = {run_input(s, r, 1), p->wide};
    const uint8_t *from = run_input(s, r, p->scatters ? 2 : 0);
    uint8_t *y = run_output(s, r, 0);
    if (p->scatters)
        memcpy(y, run_input(s, r, 0), step_output(s, 0)->size);
    return p->elements ? index_elements(s, at, from, y, e) : index_blocks(s, at, from, y, e);
}

const struct op op_index = {.prepare = index_prepare, .run = index_run, .on_constant = true};
