// Operators that only move elements: Concat, Split, Slice, Expand, Transpose, Reshape, Cast. Each
// is one copy (copy.h) or several, prepared once: an operator only says at which strides its input
// is read. Elements keep their bits where both sides have the same form, else they are converted
// and rounded as elements_store() does. Tested by test_sim_cases_moves and test_onnx_nodes.
#include "npu/sim/exec/copy.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/chain.h"

// State of a step: Concat and Split have one copy per part.
struct copies {
    uint32_t n;
    bool concat; // of a Concat or Split: the copies are of inputs to one output
    struct copy copies[];
};

static int check_types(const struct step *s, const struct graph_tensor *x,
                       const struct graph_tensor *y, struct error *e)
{
    const bool alike = x->type == y->type && x->type <= TENSOR_BOOL && !x->quantized &&
                       !y->quantized; // moved as they are
    if (alike || (element_type_known(x->type) && element_type_known(y->type)))
        return 0;
    return step_refuse(s, e, "%s -> %s is not supported", tensor_type_name(x->type),
                       tensor_type_name(y->type));
}

static struct copies *copies_new(struct step *s, uint32_t n)
{
    struct copies *c = step_alloc(s, 1, sizeof *c + n * sizeof c->copies[0]);
    s->state = c;
    return c;
}

// One copy that fills y from x: element (i, j, ...) of y is read at x_at + i * x_strides[0] + ... A
// stride of 0 repeats, a negative one reverses.
static int prepare_one(struct step *s, const int64_t *x_strides, int64_t x_at, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct copies *c = copies_new(s, 1);
    if (!c)
        return error_no_memory(e, "a step", 0);
    int r = check_types(s, x, y, e);
    if (r < 0)
        return r;
    c->n = 1;
    copy_init(&c->copies[0], y, x);
    c->copies[0].from_at = x_at;
    nd_init(&c->copies[0].nd, y);
    nd_add(&c->copies[0].nd, x_strides);
    nd_simplify(&c->copies[0].nd);
    return 0;
}

static int run_one(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct copies *c = s->state;
    copy_run(&c->copies[0], run_output(s, r, 0), run_input(s, r, 0));
    return 0;
}

// ---- Concat and Split ----

// One part of Concat or Split: `part` is the range from *at on of `whole` along the axis, which is
// written or read with the strides of the whole. *at advances.
static int prepare_part(struct step *s, struct copy *c, const struct graph_tensor *whole,
                        const struct graph_tensor *part, bool into_whole, uint64_t *at,
                        struct error *e)
{
    uint32_t axis = (uint32_t)s->node->axis;
    int64_t strides[GRAPH_MAX_DIMS];
    if (part->n_dims != whole->n_dims || axis >= whole->n_dims)
        return step_refuse(s, e, "tensor %s has %u dimensions", part->name, part->n_dims);
    for (uint32_t i = 0; i < whole->n_dims; i++)
        if (i != axis && part->dims[i] != whole->dims[i])
            return step_refuse(s, e, "tensor %s does not fit in dimension %u", part->name, i);
    if (*at + part->dims[axis] > whole->dims[axis])
        return step_refuse(s, e, "tensor %s does not fit along axis %u", part->name, axis);
    int r = check_types(s, part, whole, e);
    if (r < 0)
        return r;
    copy_init(c, into_whole ? whole : part, into_whole ? part : whole);
    graph_tensor_strides(whole, strides);
    int64_t first = (int64_t)*at * strides[axis];
    *(into_whole ? &c->to_at : &c->from_at) = first;
    nd_init(&c->nd, part);
    nd_add(&c->nd, strides);
    if (into_whole) {
        memcpy(c->nd.strides[1], c->nd.strides[0], sizeof strides);
        memcpy(c->nd.strides[0], strides, sizeof strides);
    }
    nd_simplify(&c->nd);
    *at += part->dims[axis];
    return 0;
}

// As the chip does it, where that is known: its numbers are rounded by its own factors, so some are
// a step off what the scales give. More would be another way than the one that was understood.
static int take_chain(struct step *s, struct copy *c, const struct graph_chain *chain,
                      struct error *e)
{
    int8_t table[256], by_scales[256];
    if (!chain)
        return 0;
    chain_table(chain, table);
    elements_table(&c->from, NULL, 0, &c->to, by_scales);
    if (chain_differs(table, by_scales) > 1)
        return step_refuse(s, e, "its registers scale by up to %d steps more than its tensors say",
                           chain_differs(table, by_scales));
    copy_set_table(c, table);
    return 0;
}

static int prepare_parts(struct step *s, bool concat, struct error *e)
{
    uint32_t n = concat ? s->node->n_inputs : s->node->n_outputs;
    const struct graph_tensor *whole = concat ? step_output(s, 0) : step_input(s, 0);
    struct copies *c = copies_new(s, n);
    uint64_t at = 0;
    if (!c)
        return error_no_memory(e, "a step", 0);
    c->concat = concat;
    for (uint32_t i = 0; i < n; i++) {
        const struct graph_tensor *part = concat ? step_input(s, i) : step_output(s, i);
        if (!part)
            return step_refuse(s, e, "part %u is missing", i);
        if (part->constant && part->unpack)
            return step_refuse(s, e, "part %u is a packed constant", i);
        int r = prepare_part(s, &c->copies[i], whole, part, concat, &at, e);
        if (r == 0 && s->node->chains)
            r = take_chain(s, &c->copies[i], s->node->chains[i], e);
        if (r < 0)
            return r;
        c->n++;
    }
    if (at != whole->dims[s->node->axis])
        return step_refuse(s, e, "its parts do not make up the whole");
    return 0;
}

static int prepare_concat(struct step *s, struct error *e)
{
    return prepare_parts(s, true, e);
}

static int prepare_split(struct step *s, struct error *e)
{
    return prepare_parts(s, false, e);
}

static int run_parts(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct copies *c = s->state;
    for (uint32_t i = 0; i < c->n; i++)
        copy_run(&c->copies[i], run_output(s, r, c->concat ? 0 : i),
                 run_input(s, r, c->concat ? i : 0));
    return 0;
}

// ---- Slice, Expand, Transpose, conversions ----

// Steps may be negative; start and last element must be inside. A step to nowhere may be any.
static int prepare_slice(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    int64_t strides[GRAPH_MAX_DIMS], at = 0;
    if (x->n_dims != y->n_dims)
        return step_refuse(s, e, "input and output differ in dimensions");
    graph_tensor_strides(x, strides);
    for (uint32_t i = 0; i < x->n_dims; i++) {
        const int64_t size = x->dims[i], more = y->dims[i] > 1 ? (int64_t)y->dims[i] - 1 : 0;
        const int64_t start = y->dims[i] ? s->node->slice.start[i] : 0;
        const int64_t step = more ? s->node->slice.step[i] : 1;
        const bool far = step > size || step < -size, begins = start >= 0 && start < size;
        if (y->dims[i] &&
            (!begins || far || start + more * step < 0 || start + more * step >= size))
            return step_refuse(s, e, "its output reaches outside its input in dimension %u", i);
        at += start * strides[i];
        strides[i] *= step;
    }
    return prepare_one(s, strides, at, e);
}

// Broadcast: strides of 0.
static int prepare_expand(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct nd nd;
    nd_init(&nd, y);
    if (!nd_broadcast(&nd, x))
        return step_refuse(s, e, "its input cannot be expanded to its output");
    return prepare_one(s, nd.strides[1], 0, e);
}

// A reshape, a transposition and a reshape at once.
static int prepare_apart(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const struct graph_node *n = s->node;
    int64_t from[GRAPH_MAX_DIMS];
    uint32_t turned[GRAPH_MAX_DIMS];
    struct copies *c = copies_new(s, 1);
    if (!c)
        return error_no_memory(e, "a step", 0);
    int r = check_types(s, x, y, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < n->n_apart; i++)
        turned[i] = n->apart[n->perm[i]];
    c->n = 1;
    copy_init(&c->copies[0], y, x);
    struct nd *nd = &c->copies[0].nd;
    *nd = (struct nd){.n_dims = n->n_apart, .n_operands = 2};
    if (!graph_tensor_split(x, n->apart, n->n_apart, from) ||
        !graph_tensor_split(y, turned, n->n_apart, nd->strides[0]))
        return step_refuse(s, e, "its dimensions are not divided");
    for (uint32_t i = 0; i < n->n_apart; i++) {
        nd->dims[i] = turned[i];
        nd->strides[1][i] = from[n->perm[i]];
    }
    nd_simplify(nd);
    return 0;
}

static int prepare_transpose(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    if (s->node->n_apart)
        return prepare_apart(s, e);
    int64_t from[GRAPH_MAX_DIMS], strides[GRAPH_MAX_DIMS];
    if (x->n_dims != y->n_dims)
        return step_refuse(s, e, "input and output differ in dimensions");
    graph_tensor_strides(x, from);
    for (uint32_t i = 0; i < y->n_dims; i++) {
        uint32_t source = s->node->perm[i];
        if (source >= x->n_dims || y->dims[i] != x->dims[source])
            return step_refuse(s, e, "its output is not its transposed input");
        strides[i] = from[source];
    }
    return prepare_one(s, strides, 0, e);
}

// Cast and layout changes: same shape on both sides.
static int prepare_convert(struct step *s, struct error *e)
{
    return prepare_expand(s, e);
}

// ---- Reshape ----

// Reshape keeps the logical order, which is not that of memory where a side is channels last. The
// dimensions of both sides are cut into common factors, which gives one copy:
//
//   [6, 4] -> [3, 8]   factors 3 2 4: x strides 8 4 1, y strides 8 4 1
//
// Where that does not work ([2, 3] -> [3, 2]), it goes through a plain copy in scratch.
struct reshape {
    bool direct;
    struct copy first, second; // direct: only first
    uint64_t scratch;
};

// Cuts both shapes into common factors, with a stride for each side. False: a factor of one side
// crosses a boundary of the other.
static bool common_factors(const struct graph_tensor *x, const struct graph_tensor *y,
                           struct nd *nd)
{
    int64_t xs[GRAPH_MAX_DIMS], ys[GRAPH_MAX_DIMS];
    graph_tensor_strides(x, xs);
    graph_tensor_strides(y, ys);
    *nd = (struct nd){.n_operands = 2};
    uint32_t i = x->n_dims, j = y->n_dims;
    int64_t x_left = 1, y_left = 1, x_stride = 0, y_stride = 0;
    // From the innermost outwards; nd is filled backwards and reversed at the end.
    while (i > 0 || j > 0 || x_left > 1 || y_left > 1) {
        if (x_left == 1 && i > 0) {
            x_left = x->dims[--i];
            x_stride = xs[i];
        }
        if (y_left == 1 && j > 0) {
            y_left = y->dims[--j];
            y_stride = ys[j];
        }
        int64_t part = x_left < y_left ? x_left : y_left;
        if (part == 1) {
            if ((i == 0 && x_left == 1 && y_left > 1) || (j == 0 && y_left == 1 && x_left > 1))
                return false;
            continue;
        }
        if (x_left % part || y_left % part || nd->n_dims == ND_MAX_DIMS)
            return false;
        nd->dims[nd->n_dims] = part;
        nd->strides[0][nd->n_dims] = y_stride;
        nd->strides[1][nd->n_dims] = x_stride;
        nd->n_dims++;
        x_left /= part;
        y_left /= part;
        x_stride *= part;
        y_stride *= part;
    }
    for (uint32_t a = 0, b = nd->n_dims; a + 1 < b; a++) {
        b--;
        for (uint32_t k = 0; k < 3; k++) {
            int64_t *v = k < 2 ? nd->strides[k] : nd->dims, t = v[a];
            v[a] = v[b];
            v[b] = t;
        }
    }
    return true;
}

static int prepare_reshape(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct reshape *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", 0);
    int r = check_types(s, x, y, e);
    if (r < 0)
        return r;
    if (x->n_elems != y->n_elems)
        return step_refuse(s, e, "input and output differ in size");
    copy_init(&p->first, y, x);
    p->direct = !y->n_elems || common_factors(x, y, &p->first.nd);
    if (p->direct) {
        nd_simplify(&p->first.nd);
        return 0;
    }
    struct graph_tensor plain_x = *x, plain_y = *y;
    plain_x.channels_last = plain_y.channels_last = false;
    copy_init_whole(&p->first, &plain_x, x);
    copy_init(&p->second, y, &plain_x);
    nd_init(&p->second.nd, y);
    nd_broadcast(&p->second.nd, &plain_y);
    nd_simplify(&p->second.nd);
    return step_scratch(s, x->size, &p->scratch, e);
}

static int run_reshape(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct reshape *p = s->state;
    const struct graph_tensor *y = step_output(s, 0);
    if (!y->n_elems)
        return 0;
    if (p->direct) {
        copy_run(&p->first, run_output(s, r, 0), run_input(s, r, 0));
        return 0;
    }
    void *plain = run_scratch(r, p->scratch);
    copy_run(&p->first, plain, run_input(s, r, 0));
    copy_run(&p->second, run_output(s, r, 0), plain);
    return 0;
}

const struct op op_concat = {.prepare = prepare_concat, .run = run_parts, .on_constant = true};
const struct op op_split = {.prepare = prepare_split, .run = run_parts};
const struct op op_slice = {.prepare = prepare_slice, .run = run_one};
const struct op op_expand = {.prepare = prepare_expand, .run = run_one};
const struct op op_transpose = {.prepare = prepare_transpose, .run = run_one};
const struct op op_convert = {.prepare = prepare_convert, .run = run_one};
const struct op op_reshape = {.prepare = prepare_reshape, .run = run_reshape};
