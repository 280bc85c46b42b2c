// If, Loop and Scan of ONNX: nodes with graphs inside. What they do is decided when they are
// lowered, so nothing of them is left:
//
//      If      the branch that is taken is lowered in place of the node; where a run decides, the
//              run lowers it (onnx_late.c)
//      Loop    its body is lowered as often as it runs, for which its number and its condition must
//              be known: at load, or by the operands of a run
//      Scan    as Loop, as often as its inputs have elements along their axes
//      calls   of functions that the file has: the function is lowered in place of the node
//
// A body sees the names around it, and has its own; a function sees its inputs alone.
#include <stdio.h>

#include "npu/model/onnx/onnx_lower.h"
#include "npu/model/onnx/onnx_names.h"

#define MAX_STACKED 4096 // tensors of which one output is made

// ---- a body ----

static int read_body(struct onnx_lowering *l, const char *name, const struct onnx_file **ret,
                     struct error *e)
{
    for (uint32_t i = 0; i < l->node->n_attrs; i++) {
        const struct onnx_attr *a = &l->node->attrs[i];
        if (strcmp(a->name, name) != 0 || !a->g.data)
            continue;
        struct onnx_file *body = pool_alloc(&l->g->pool, 1, sizeof *body);
        if (!body)
            return error_no_memory(e, "a graph", sizeof *body);
        *ret = body;
        return onnx_file_subgraph(l->f, a->g, body, e);
    }
    return onnx_refuse(l, e, "its graph %s is missing", name);
}

static int lower_body(struct onnx_lowering *l, const int32_t *in, uint32_t n_in, int32_t *out,
                      struct error *e)
{
    const struct onnx_file *f = l->f;
    int r = 0;
    for (uint32_t i = 0; i < n_in && r == 0; i++)
        r = onnx_names_set(l->names, f->inputs[i].name, in[i], e);
    if (r == 0)
        r = onnx_lower_initializers(l, e);
    if (r == 0)
        r = onnx_lower_nodes(l, f->nodes, f->n_nodes, e);
    for (uint32_t i = 0; i < f->n_outputs && r == 0; i++) {
        out[i] = onnx_names_find(l->names, f->outputs[i].name);
        r = out[i] < 0 ? error_set(e, STATUS_MODEL_INVALID, "output %s: nothing makes it",
                                   f->outputs[i].name)
                       : onnx_unpacked(l, out[i], e);
    }
    return r;
}

// Lowers the body's nodes for the inputs in[n_in] here and now; they see the names `around`. out[]
// takes body->n_outputs tensors. What l knows of the node is as before afterwards.
static int inline_graph(struct onnx_lowering *l, const struct onnx_file *body,
                        const struct onnx_names *around, const int32_t *in, uint32_t n_in,
                        int32_t *out, struct error *e)
{
    if (n_in != body->n_inputs)
        return onnx_refuse(l, e, "its graph has %u inputs, not %u", body->n_inputs, n_in);
    if (l->depth == ONNX_MAX_DEPTH)
        return onnx_refuse(l, e, "graphs inside nodes, and functions, are nested more than %d deep",
                           ONNX_MAX_DEPTH);
    size_t edges = sizeof l->in + sizeof l->out;
    struct onnx_lowering *before = pool_alloc(&l->g->pool, 1, sizeof *before);
    struct onnx_names *names = NULL;
    if (!before)
        return error_no_memory(e, "a graph", sizeof *before + edges);
    *before = *l;
    int r = onnx_names_new(&names, around, e);
    if (r < 0)
        return r;
    l->f = body;
    l->names = names;
    l->stated = NULL;
    l->depth++;
    r = lower_body(l, in, n_in, out, e);
    onnx_names_free(names);
    onnx_names_free(l->stated);
    l->f = before->f;
    l->names = before->names;
    l->stated = before->stated;
    l->depth = before->depth;
    l->node = before->node;
    l->operator= before->operator;
    l->n_in = before->n_in;
    l->n_out = before->n_out;
    memcpy(l->in, before->in, sizeof l->in);
    memcpy(l->out, before->out, sizeof l->out);
    if (r < 0 && around) // nodes of a function have its name in theirs
        return error_prefix(e, "inside node %s (%s)", l->node->name, l->node->op);
    return r;
}

static int inline_body(struct onnx_lowering *l, const struct onnx_file *body, const int32_t *in,
                       uint32_t n_in, int32_t *out, struct error *e)
{
    return inline_graph(l, body, l->names, in, n_in, out, e);
}

// Tensors from `first` on, which a body or a function has made, are called OF/TENSOR: whoever looks
// at tensors (dumps, comparisons) knows them by their names, of which a file has one for all times.
static int name_made(struct onnx_lowering *l, uint32_t first, const char *of, struct error *e)
{
    char text[300];
    for (uint32_t i = first; i < l->g->n_tensors; i++) {
        struct graph_tensor *t = &l->g->tensors[i];
        int n = snprintf(text, sizeof text, "%.140s/%.140s", of, t->name);
        t->name = pool_text(&l->g->pool, (struct bytes){(const uint8_t *)text, (size_t)n});
        if (!t->name)
            return error_no_memory(e, "a graph", sizeof text);
    }
    return 0;
}

// ---- the names that bodies take from around them ----

struct captured {
    const char **items;
    uint32_t n, room;
};

// The node's own outputs are known already, and are often called as its bodies call theirs.
static bool is_own_output(const struct onnx_lowering *l, int32_t tensor)
{
    for (uint32_t i = 0; i < l->n_out; i++)
        if (l->out[i] == tensor)
            return true;
    return false;
}

static int capture(struct onnx_lowering *l, struct captured *c, const char *name, struct error *e)
{
    int32_t tensor = onnx_names_find(l->names, name);
    if (!name[0] || tensor < 0 || is_own_output(l, tensor))
        return 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (strcmp(c->items[i], name) == 0)
            return 0;
    if (c->n == ONNX_MAX_EDGES)
        return onnx_refuse(l, e, "its graphs take more than %d tensors from around them",
                           ONNX_MAX_EDGES);
    if (!pool_reserve(&l->g->pool, c->items, c->n, c->room, c->n + 1))
        return error_no_memory(e, "a graph", 0);
    c->items[c->n++] = name;
    return onnx_unpacked(l, tensor, e);
}

// Of all graphs of a node, and of the nodes in them. A name that a body makes itself may be among
// them when there is one of the same name around it, which does no harm.
static int capture_all(struct onnx_lowering *l, const struct onnx_node *n, uint32_t depth,
                       struct captured *c, struct error *e)
{
    int r = 0;
    if (depth > ONNX_MAX_DEPTH)
        return onnx_refuse(l, e, "graphs inside nodes are nested more than %d deep",
                           ONNX_MAX_DEPTH);
    for (uint32_t a = 0; a < n->n_attrs && r == 0; a++) {
        struct onnx_file body;
        if (!n->attrs[a].g.data)
            continue;
        r = onnx_file_subgraph(l->f, n->attrs[a].g, &body, e);
        for (uint32_t i = 0; r == 0 && i < body.n_outputs; i++)
            r = capture(l, c, body.outputs[i].name, e);
        for (uint32_t i = 0; r == 0 && i < body.n_nodes; i++) {
            for (uint32_t k = 0; r == 0 && k < body.nodes[i].n_inputs; k++)
                r = capture(l, c, body.nodes[i].inputs[k], e);
            if (r == 0)
                r = capture_all(l, &body.nodes[i], depth + 1, c, e);
        }
    }
    return r;
}

// ---- If ----

static int take_outputs(struct onnx_lowering *l, const int32_t *out, uint32_t n, struct error *e)
{
    int r = n < l->n_out ? onnx_refuse(l, e, "its graph has %u outputs, not %u", n, l->n_out) : 0;
    for (uint32_t i = 0; i < l->n_out && r == 0; i++)
        if (l->out[i] >= 0)
            r = onnx_same_as(l, i, out[i], e);
    return r;
}

int onnx_lower_if(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *condition = onnx_in(l, 0);
    const struct onnx_file *body = NULL;
    struct captured captured = {0};
    if (condition->type != TENSOR_BOOL || condition->n_elems != 1)
        return onnx_refuse(l, e, "its condition is no single truth value");
    if (!condition->constant) {
        int r = capture_all(l, l->node, 0, &captured, e);
        return r < 0 ? r : onnx_lower_choice(l, captured.items, captured.n, e);
    }
    int r = read_body(l, condition->data.data[0] ? "then_branch" : "else_branch", &body, e);
    if (r < 0)
        return r;
    int32_t *out = pool_alloc(&l->g->pool, body->n_outputs, sizeof *out);
    r = out ? inline_body(l, body, NULL, 0, out, e) : error_no_memory(e, "a graph", 0);
    return r < 0 ? r : take_outputs(l, out, body->n_outputs, e);
}

// ---- calls of functions ----

// Outputs of a call are called as the node's.
static int name_call(struct onnx_lowering *l, uint32_t first, const int32_t *out, struct error *e)
{
    int r = name_made(l, first, l->node->name, e);
    for (uint32_t i = 0; i < l->n_out && r == 0; i++)
        if (l->out[i] >= 0 && out[i] >= 0 && (uint32_t)out[i] >= first)
            l->g->tensors[out[i]].name = l->g->tensors[l->out[i]].name;
    return r;
}

int onnx_lower_call(struct onnx_lowering *l, const struct onnx_function *function, struct error *e)
{
    struct onnx_file *body = pool_alloc(&l->g->pool, 1, sizeof *body);
    if (!body)
        return error_no_memory(e, "a function", sizeof *body);
    int r = onnx_file_call(l->f, function, l->node, body, e);
    if (r < 0)
        return error_prefix(e, "node %s (%s)", l->node->name, l->node->op);
    if (l->n_in > body->n_inputs)
        return onnx_refuse(l, e, "it has %u inputs, and its function %u", l->n_in, body->n_inputs);
    l->n_repeated += body->n_nodes + 1;
    if (l->n_repeated > ONNX_REPEATED_MAX)
        return onnx_refuse(l, e, "functions and loops make up more than %d nodes",
                           ONNX_REPEATED_MAX);
    int32_t *in = pool_alloc(&l->g->pool, body->n_inputs, sizeof *in);
    int32_t *out = pool_alloc(&l->g->pool, body->n_outputs, sizeof *out);
    if (!in || !out)
        return error_no_memory(e, "a function", 0);
    for (uint32_t i = 0; i < body->n_inputs; i++)
        in[i] = i < l->n_in ? l->in[i] : -1;
    for (uint32_t i = 0; i < l->n_in && r == 0; i++)
        r = in[i] < 0 ? 0 : onnx_unpacked(l, in[i], e);
    uint32_t first = l->g->n_tensors;
    if (r == 0)
        r = inline_graph(l, body, NULL, in, body->n_inputs, out, e);
    if (r == 0 && l->n_out > body->n_outputs)
        return onnx_refuse(l, e, "it has %u outputs, and its function %u", l->n_out,
                           body->n_outputs);
    if (r == 0)
        r = name_call(l, first, out, e);
    return r < 0 ? r : take_outputs(l, out, body->n_outputs, e);
}

// ---- what Loop and Scan share ----

// The body, its inputs and outputs of one repetition, and of each repetition the outputs that are
// collected.
struct repeated {
    const struct onnx_file *body;
    uint32_t n_states, n_collected;
    int32_t *in, *out;
    int32_t **collected; // [n_collected][repetitions]
    uint32_t *room, n;
};

// `ahead`: inputs and outputs of the body in front of its states.
static int repeated_init(struct onnx_lowering *l, struct repeated *p, uint32_t ahead_out,
                         struct error *e)
{
    struct pool *pool = &l->g->pool;
    if (p->body->n_outputs < ahead_out + p->n_states)
        return onnx_refuse(l, e, "its graph has %u outputs", p->body->n_outputs);
    p->n_collected = p->body->n_outputs - ahead_out - p->n_states;
    if (l->n_out > p->n_states + p->n_collected)
        return onnx_refuse(l, e, "its graph does not have as many outputs");
    p->in = pool_alloc(pool, p->body->n_inputs, sizeof *p->in);
    p->out = pool_alloc(pool, p->body->n_outputs, sizeof *p->out);
    p->collected = pool_alloc(pool, p->n_collected, sizeof *p->collected);
    p->room = pool_alloc(pool, p->n_collected, sizeof *p->room);
    return p->in && p->out && p->collected && p->room ? 0 : error_no_memory(e, "a loop", 0);
}

static int name_repetition(struct onnx_lowering *l, uint32_t first, uint32_t n, struct error *e)
{
    char of[160];
    snprintf(of, sizeof of, "%.120s[%u]", l->node->name, n);
    return name_made(l, first, of, e);
}

// One repetition; states of its end are those of the next one's beginning.
static int repeat(struct onnx_lowering *l, struct repeated *p, uint32_t ahead_in,
                  uint32_t ahead_out, struct error *e)
{
    l->n_repeated += p->body->n_nodes + 1;
    if (l->n_repeated > ONNX_REPEATED_MAX || p->n == MAX_STACKED)
        return onnx_refuse(l, e, "its repetitions make up more than %d nodes, or are more than %d",
                           ONNX_REPEATED_MAX, MAX_STACKED);
    uint32_t first = l->g->n_tensors;
    int r = inline_body(l, p->body, p->in, p->body->n_inputs, p->out, e);
    if (r == 0)
        r = name_repetition(l, first, p->n, e);
    if (r < 0)
        return r;
    memcpy(p->in + ahead_in, p->out + ahead_out, p->n_states * sizeof *p->in);
    for (uint32_t i = 0; i < p->n_collected; i++) {
        if (!pool_reserve(&l->g->pool, p->collected[i], p->n, p->room[i], p->n + 1))
            return error_no_memory(e, "a loop", 0);
        p->collected[i][p->n] = p->out[ahead_out + p->n_states + i];
    }
    p->n++;
    return 0;
}

// A tensor with one more dimension, of 1, at the axis.
static int32_t with_axis(struct onnx_lowering *l, int32_t tensor, uint32_t axis, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[tensor];
    uint32_t dims[GRAPH_MAX_DIMS + 1];
    for (uint32_t i = 0; i <= t->n_dims; i++)
        dims[i] = i == axis ? 1 : t->dims[i - (i > axis)];
    if (t->n_dims == GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "its output has too many dimensions");
    return onnx_reshaped(l, tensor, t->n_dims + 1, dims, e);
}

int onnx_stack(struct onnx_lowering *l, uint32_t i, const int32_t *parts, uint32_t n, int64_t axis,
               bool backwards, struct error *e)
{
    if (!n)
        return onnx_refuse(l, e, "it has no repetition, so nothing says what its output %u is", i);
    const struct graph_tensor first = l->g->tensors[parts[0]];
    int r = onnx_axis(l, axis, first.n_dims + 1, &axis, e);
    int32_t *in = pool_alloc(&l->g->pool, n, sizeof *in);
    if (r < 0 || !in)
        return r < 0 ? r : error_no_memory(e, "a loop", 0);
    for (uint32_t k = 0; k < n; k++) {
        const struct graph_tensor *t = &l->g->tensors[parts[k]];
        if (onnx_is_sequence(l, parts[k]))
            return onnx_refuse(l, e, "its output %u is a sequence in each repetition", i);
        if (t->type != first.type || t->n_dims != first.n_dims ||
            memcmp(t->dims, first.dims, t->n_dims * sizeof *t->dims) != 0)
            return onnx_refuse(l, e, "its output %u changes its shape from one to the next", i);
        in[backwards ? n - 1 - k : k] = with_axis(l, parts[k], (uint32_t)axis, e);
        if (in[backwards ? n - 1 - k : k] < 0)
            return STATUS_MODEL_INVALID;
    }
    if (n == 1)
        return onnx_same_as(l, i, in[0], e);
    struct graph_tensor whole = l->g->tensors[in[0]];
    whole.dims[axis] = n;
    r = onnx_shape(l, i, whole.type, whole.n_dims, whole.dims, e);
    struct graph_node *node = r < 0 ? NULL : onnx_emit(l, GRAPH_CONCAT, in, n, &l->out[i], 1, e);
    if (!node)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    node->axis = (int32_t)axis;
    return 0;
}

// ---- Loop ----

// How often at most, and whether at all; as good as for ever, and yes, where these are left out.
static int take_bounds(const struct onnx_lowering *l, int64_t *max_runs, bool *go_on,
                       struct error *e)
{
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t n;
    const struct graph_tensor *condition = onnx_in(l, 1);
    int r = onnx_in_ints(l, 0, v, &n, e);
    if (r < 0)
        return r;
    if ((onnx_in(l, 0) && n != 1) ||
        (condition && (condition->type != TENSOR_BOOL || condition->n_elems != 1)))
        return onnx_refuse(l, e, "its number or its condition is no single one");
    *max_runs = n ? v[0] : INT64_MAX;
    *go_on = !condition || condition->data.data[0];
    return 0;
}

static int32_t constant_number(struct onnx_lowering *l, enum tensor_type type, int64_t v,
                               struct error *e)
{
    uint8_t *data = pool_alloc(&l->g->pool, 1, sizeof v);
    if (!data)
        return error_no_memory(e, "a loop", sizeof v);
    write_le64(data, (uint64_t)v);
    return onnx_constant(l, type, 0, (const uint32_t[1]){0}, data, e);
}

static int loop(struct onnx_lowering *l, struct repeated *p, int64_t max_runs, bool go_on,
                struct error *e)
{
    int r = 0;
    for (int64_t i = 0; i < max_runs && go_on && r == 0; i++) {
        p->in[0] = constant_number(l, TENSOR_INT64, i, e);
        p->in[1] = constant_number(l, TENSOR_BOOL, 1, e);
        if (p->in[0] < 0 || p->in[1] < 0)
            return STATUS_MALLOC_FAIL;
        r = repeat(l, p, 2, 1, e);
        const struct graph_tensor *t = &l->g->tensors[p->out[0]];
        if (r == 0 && (!t->constant || t->type != TENSOR_BOOL || t->n_elems != 1))
            return onnx_refuse(l, e, "whether it goes on is computed while running");
        go_on = r == 0 && t->data.data[0];
    }
    return r;
}

int onnx_lower_loop(struct onnx_lowering *l, struct error *e)
{
    struct repeated p = {.n_states = l->n_in > 2 ? l->n_in - 2 : 0};
    struct captured captured = {0};
    uint32_t open = 0;
    for (uint32_t i = 0; i < 2 && i < l->n_in; i++)
        open |= onnx_in(l, i) && !onnx_in(l, i)->constant ? 1u << i : 0;
    if (open) {
        int r = capture_all(l, l->node, 0, &captured, e);
        return r < 0 ? r : onnx_lower_late(l, open, captured.items, captured.n, e);
    }
    int64_t max_runs;
    bool go_on;
    int r = take_bounds(l, &max_runs, &go_on, e);
    if (r == 0)
        r = read_body(l, "body", &p.body, e);
    if (r == 0 && p.body->n_inputs != 2 + p.n_states)
        return onnx_refuse(l, e, "its graph has %u inputs", p.body->n_inputs);
    if (r == 0)
        r = repeated_init(l, &p, 1, e);
    if (r != 0)
        return r;
    for (uint32_t i = 0; i < p.n_states; i++) {
        p.in[2 + i] = l->in[2 + i];
        if (p.in[2 + i] < 0)
            return onnx_refuse(l, e, "its input %u is missing", 2 + i);
    }
    r = loop(l, &p, max_runs, go_on, e);
    for (uint32_t i = 0; i < l->n_out && r == 0; i++) {
        if (l->out[i] >= 0)
            r = i < p.n_states ? onnx_same_as(l, i, p.in[2 + i], e)
                               : onnx_stack(l, i, p.collected[i - p.n_states], p.n, 0, false, e);
    }
    return r;
}

// ---- Scan ----

// A list with a number for each of n; all 0 where it is left out.
static int take_list(const struct onnx_lowering *l, const char *name, uint32_t n, int64_t *dst,
                     struct error *e)
{
    uint32_t found;
    memset(dst, 0, ONNX_MAX_SHAPE * sizeof *dst);
    int r = onnx_ints(l, name, dst, &found, e);
    if (r == 0 && (n > ONNX_MAX_SHAPE || (found && found != n)))
        return onnx_refuse(l, e, "attribute %s has %u numbers for %u", name, found, n);
    return r;
}

int32_t onnx_part(struct onnx_lowering *l, int32_t tensor, uint32_t axis, uint32_t start,
                  uint32_t size, bool keeps, struct error *e)
{
    struct graph_tensor x = l->g->tensors[tensor];
    uint32_t dims[GRAPH_MAX_DIMS], n = 0;
    for (uint32_t i = 0; i < x.n_dims; i++)
        if (i != axis)
            dims[n++] = x.dims[i];
    x.dims[axis] = size;
    int32_t part = onnx_temporary(l, x.type, x.n_dims, x.dims, e);
    int32_t y = part < 0 || keeps ? part : onnx_temporary(l, x.type, n, dims, e);
    struct graph_node *node = y < 0 ? NULL : onnx_emit(l, GRAPH_SLICE, &tensor, 1, &part, 1, e);
    if (!node)
        return y < 0 ? y : STATUS_MALLOC_FAIL;
    for (uint32_t i = 0; i < GRAPH_MAX_DIMS; i++)
        node->slice.step[i] = 1;
    node->slice.start[axis] = start;
    if (keeps)
        return y;
    return onnx_emit(l, GRAPH_RESHAPE, &part, 1, &y, 1, e) ? y : STATUS_MALLOC_FAIL;
}

// The axis of each scanned input, and how long all of them are there.
static int take_axes(struct onnx_lowering *l, uint32_t n_states, uint32_t n, int64_t *axes,
                     uint32_t *ret_length, struct error *e)
{
    int r = take_list(l, "scan_input_axes", n, axes, e);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        const struct graph_tensor *x = onnx_in(l, n_states + i);
        if (!x)
            return onnx_refuse(l, e, "its input %u is missing", n_states + i);
        r = onnx_axis(l, axes[i], x->n_dims, &axes[i], e);
        if (r == 0 && i && x->dims[axes[i]] != *ret_length)
            return onnx_refuse(l, e, "its inputs have different lengths");
        if (r == 0)
            *ret_length = x->dims[axes[i]];
    }
    return r;
}

int onnx_lower_scan(struct onnx_lowering *l, struct error *e)
{
    int64_t n_scanned = onnx_int(l, "num_scan_inputs", 0), axes[ONNX_MAX_SHAPE],
            directions[ONNX_MAX_SHAPE], out_axes[ONNX_MAX_SHAPE], out_directions[ONNX_MAX_SHAPE];
    struct repeated p = {0};
    uint32_t length = 0;
    if (l->f->opset < 9)
        return onnx_refuse(l, e, "its form of operator set 8 is not supported");
    if (n_scanned < 1 || n_scanned > l->n_in || n_scanned > ONNX_MAX_SHAPE)
        return onnx_refuse(l, e, "%lld of its inputs are scanned", (long long)n_scanned);
    p.n_states = l->n_in - (uint32_t)n_scanned;
    int r = read_body(l, "body", &p.body, e);
    if (r == 0 && p.body->n_inputs != l->n_in)
        return onnx_refuse(l, e, "its graph has %u inputs", p.body->n_inputs);
    if (r == 0)
        r = repeated_init(l, &p, 0, e);
    if (r == 0)
        r = take_axes(l, p.n_states, (uint32_t)n_scanned, axes, &length, e);
    if (r == 0)
        r = take_list(l, "scan_input_directions", (uint32_t)n_scanned, directions, e);
    if (r == 0)
        r = take_list(l, "scan_output_axes", p.n_collected, out_axes, e);
    if (r == 0)
        r = take_list(l, "scan_output_directions", p.n_collected, out_directions, e);
    for (uint32_t i = 0; i < p.n_states && r == 0; i++) {
        p.in[i] = l->in[i];
        r = p.in[i] < 0 ? onnx_refuse(l, e, "its input %u is missing", i) : 0;
    }
    for (uint32_t k = 0; k < length && r == 0; k++) {
        uint32_t first = l->g->n_tensors;
        for (uint32_t i = 0; i < n_scanned && r == 0; i++) {
            uint32_t at = directions[i] ? length - 1 - k : k;
            p.in[p.n_states + i] =
                onnx_part(l, l->in[p.n_states + i], (uint32_t)axes[i], at, 1, false, e);
            r = p.in[p.n_states + i] < 0 ? STATUS_MODEL_INVALID : 0;
        }
        if (r == 0)
            r = name_repetition(l, first, k, e);
        if (r == 0)
            r = repeat(l, &p, 0, 0, e);
    }
    for (uint32_t i = 0; i < l->n_out && r == 0; i++)
        if (l->out[i] >= 0)
            r = i < p.n_states
                    ? onnx_same_as(l, i, p.in[i], e)
                    : onnx_stack(l, i, p.collected[i - p.n_states], p.n, out_axes[i - p.n_states],
                                 out_directions[i - p.n_states], e);
    return r;
}
