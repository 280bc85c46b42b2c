// Moves by ref_bytes.h. For each dimension a table says, in bytes, where its lines are taken from:
//
//   Tile, 3 to 6      0 1 2 0 1 2
//   Pad, reflected    2 1 0 1 2 3 2 1
//   Gather            its indices
//
// The tables are made in each run: indices are data. Dimensions are in the order of memory, and
// those at the end that are taken whole are one block; lines that follow each other on both sides
// are one copy.
//
// Tests: test_onnx_nodes (ONNX's own cases, in both orders of memory), test_sim_cases_index.
#include "npu/sim/ref/ref_bytes.h"

#include <string.h>

#include "npu/sim/simd/kernel.h"

#define LONG_RUN 16 // bytes that a copy of its own is worth

struct pick {
    uint32_t n_dims, dims[GRAPH_MAX_DIMS];
    int64_t *from[GRAPH_MAX_DIMS]; // bytes
    size_t block;                  // bytes under the last of them
};

// Copies of the last dimension.
struct pick_run {
    int64_t from;
    size_t bytes;
};

bool ref_bytes_alike(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return x && y && x->type == y->type && x->type < TENSOR_BOOL && !x->unpack && !y->unpack &&
           !x->natural && !y->natural;
}

// Quantized ones of the same form have the same bytes, too.
bool ref_bytes_same(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return ref_bytes_alike(x, y) && x->quantized == y->quantized &&
           (!x->quantized || (x->scale == y->scale && x->zp == y->zp));
}

static bool stored_alike(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return ref_bytes_same(x, y) && x->channels_last == y->channels_last && x->n_dims == y->n_dims &&
           x->n_dims && x->n_elems && y->n_elems;
}

bool ref_bytes_fits(const struct step *s)
{
    const struct graph_node *n = s->node;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0),
                              *indices = step_input(s, 1);
    if (!stored_alike(x, y))
        return false;
    switch (n->ref.op) {
    case REF_OP_TILE:
        return true;
    case REF_OP_PAD:
        return n->ref.ints[0] != PAD_CONSTANT;
    case REF_OP_GATHER:
        return x->channels_last && indices && indices->n_dims == 1;
    default:
        return false;
    }
}

uint64_t ref_bytes_scratch(const struct graph_tensor *y)
{
    uint64_t lines = 0;
    for (uint32_t i = 0; i < y->n_dims; i++)
        lines += y->dims[i];
    return lines * (sizeof(int64_t) + sizeof(struct pick_run));
}

// Which line of the input becomes line `at` of the output.
static int pick_source(const struct ref_call *c, uint32_t dim, uint32_t at, uint64_t *ret,
                       struct error *e)
{
    const struct graph_node *n = c->node;
    const uint32_t size = c->in[0].t->dims[dim];
    if (n->ref.op == REF_OP_GATHER && dim == (uint32_t)n->ref.ints[0])
        return ref_resolve(c, c->in[1].v[at].i, size, ret, e);
    *ret = n->ref.op == REF_OP_TILE ? at % size
           : n->ref.op == REF_OP_PAD
               ? (uint64_t)ref_pad_source(n->ref.ints[0], (int64_t)at - n->ref.ints[1 + dim], size)
               : at;
    return 0;
}

// The table of a dimension; *ret_whole: it is taken as it is.
static int pick_table(const struct ref_call *c, uint32_t dim, int64_t stride, int64_t *table,
                      bool *ret_whole, struct error *e)
{
    const uint32_t n = c->out[0].t->dims[dim];
    *ret_whole = n == c->in[0].t->dims[dim];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t source = 0;
        int r = pick_source(c, dim, i, &source, e);
        if (r < 0)
            return r;
        *ret_whole = *ret_whole && source == i;
        table[i] = (int64_t)source * stride;
    }
    return 0;
}

// In the order of memory. `scratch`: tables; *ret_behind: what is behind them.
static int pick_describe(const struct ref_call *c, struct pick *p, int64_t *scratch,
                         void **ret_behind, struct error *e)
{
    const struct graph_tensor *x = c->in[0].t, *y = c->out[0].t;
    static const uint32_t last[] = {0, 2, 3, 1};
    int64_t strides[GRAPH_MAX_DIMS], size = (int64_t)tensor_type_size(x->type);
    bool whole[GRAPH_MAX_DIMS];
    graph_tensor_strides(x, strides);
    *p = (struct pick){.n_dims = y->n_dims, .block = (size_t)size};
    for (uint32_t i = 0; i < y->n_dims; i++) {
        const uint32_t dim = y->channels_last ? last[i] : i;
        p->dims[i] = y->dims[dim];
        p->from[i] = scratch;
        int r = pick_table(c, dim, strides[dim] * size, scratch, &whole[i], e);
        if (r < 0)
            return r;
        scratch += p->dims[i];
    }
    while (p->n_dims > 1 && whole[p->n_dims - 1])
        p->block *= p->dims[--p->n_dims];
    *ret_behind = scratch;
    return 0;
}

static size_t pick_runs(const struct pick *p, struct pick_run *runs)
{
    const int64_t *from = p->from[p->n_dims - 1];
    size_t n = 0;
    for (uint32_t i = 0; i < p->dims[p->n_dims - 1]; i++)
        if (n && from[i] == runs[n - 1].from + (int64_t)runs[n - 1].bytes)
            runs[n - 1].bytes += p->block;
        else
            runs[n++] = (struct pick_run){from[i], p->block};
    return n;
}

#define EACH(type)                                                                                 \
    for (size_t i = 0; i < n; i++, to += sizeof(type))                                             \
        memcpy(to, from + table[i], sizeof(type));                                                 \
    break

static void pick_each(const int64_t *table, size_t n, size_t block, const uint8_t *from,
                      uint8_t *to)
{
    switch (block) {
    case 1:
        EACH(uint8_t);
    case 2:
        EACH(uint16_t);
    case 4:
        EACH(uint32_t);
    case 8:
        EACH(uint64_t);
    default: // pixels of some bytes
        for (size_t i = 0; i < n; i++, to += block)
            memcpy(to, from + table[i], block);
    }
}

int ref_bytes_move(const struct ref_call *c, const uint8_t *from, uint8_t *to, void *scratch,
                   struct error *e)
{
    struct pick p;
    void *behind;
    int r = pick_describe(c, &p, scratch, &behind, e);
    if (r < 0)
        return r;
    struct pick_run *runs = behind;
    const uint32_t inner = p.n_dims - 1;
    const size_t n = p.dims[inner], n_runs = pick_runs(&p, runs), bytes = n * p.block;
    const bool each = p.block <= sizeof(uint64_t) && bytes < n_runs * LONG_RUN;
    uint32_t index[GRAPH_MAX_DIMS] = {0};
    for (uint64_t left = c->out[0].t->size / bytes; left; left--) {
        const uint8_t *base = from;
        for (uint32_t i = 0; i < inner; i++)
            base += p.from[i][index[i]];
        if (each)
            pick_each(p.from[inner], n, p.block, base, to);
        uint8_t *at = to;
        for (size_t i = 0; i < n_runs && !each; at += runs[i++].bytes)
            memcpy(at, base + runs[i].from, runs[i].bytes);
        to += bytes;
        for (uint32_t i = inner; i-- > 0 && ++index[i] == p.dims[i];)
            index[i] = 0;
    }
    return 0;
}
