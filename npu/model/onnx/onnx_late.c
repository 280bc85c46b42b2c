// Nodes that are lowered in a run, because an operand that decides sizes, axes or a branch is
// computed, or an input of the model:
//
//      load   onnx_lower_late()   a node of GRAPH_LATE, whose outputs have the shapes that the file
//                                 states
//      run    late_make()         the operands are constants now: a graph of this node alone,
//      lowered
//                                 as any other, whose outputs must have those shapes
//
// So the shapes that a program sees are those of the file, and a run whose values give others
// fails.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"
#include "npu/model/onnx/onnx_names.h"

// What late_make() needs, in the pool of the graph around.
struct late {
    const struct onnx_file *f;
    const struct onnx_node *node;
    const char **names; // of the graph node's inputs
    const struct graph_executor *executor;
    uint32_t depth;
};

// Operators and the operands, a bit for each, that must be known when they are lowered.
static const struct {
    const char *op;
    uint32_t operands;
} late_operands[] = {
    {"Compress", 1 << 1},
    {"ConstantOfShape", 1 << 0},
    {"CumSum", 1 << 1},
    {"Expand", 1 << 1},
    {"MaxUnpool", 1 << 2},
    {"NonMaxSuppression", 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4},
    {"NonZero", 1 << 0},
    {"OneHot", 1 << 1},
    {"Pad", 1 << 1 | 1 << 2 | 1 << 3},
    {"Range", 1 << 0 | 1 << 1 | 1 << 2},
    {"ReduceL1", 1 << 1},
    {"ReduceL2", 1 << 1},
    {"ReduceLogSum", 1 << 1},
    {"ReduceLogSumExp", 1 << 1},
    {"ReduceMax", 1 << 1},
    {"ReduceMean", 1 << 1},
    {"ReduceMin", 1 << 1},
    {"ReduceProd", 1 << 1},
    {"ReduceSum", 1 << 1},
    {"ReduceSumSquare", 1 << 1},
    {"Reshape", 1 << 1},
    {"Resize", 1 << 1 | 1 << 2 | 1 << 3},
    {"Slice", 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4},
    {"Split", 1 << 1},
    {"Squeeze", 1 << 1},
    {"Tile", 1 << 1},
    {"TopK", 1 << 1},
    {"Trilu", 1 << 1},
    {"Unsqueeze", 1 << 1},
    {"Upsample", 1 << 1},
};

uint32_t onnx_late_operands(const struct onnx_lowering *l)
{
    uint32_t operands = 0, open = 0;
    for (size_t i = 0; i < sizeof late_operands / sizeof *late_operands; i++)
        if (strcmp(late_operands[i].op, l->operator->name) == 0)
            operands = late_operands[i].operands;
    for (uint32_t i = 0; i < l->n_in && i < 32; i++)
        if (operands >> i & 1 && l->in[i] >= 0 && !l->g->tensors[l->in[i]].constant)
            open |= 1u << i;
    return open;
}

// ---- while a model is loaded ----

// Where f states types and shapes, by name.
static int find_stated(struct onnx_lowering *l, const char *name, const struct onnx_value **ret,
                       struct error *e)
{
    const struct onnx_file *f = l->f;
    int r = l->stated ? 0 : onnx_names_new(&l->stated, NULL, e);
    if (r == 0 && !onnx_names_has(l->stated, "")) { // not filled yet
        r = onnx_names_set(l->stated, "", -1, e);
        for (uint32_t i = 0; i < f->n_values + f->n_outputs && r == 0; i++) {
            const struct onnx_value *v =
                i < f->n_values ? &f->values[i] : &f->outputs[i - f->n_values];
            r = onnx_names_set(l->stated, v->name, (int32_t)i, e);
        }
    }
    if (r < 0)
        return r;
    int32_t i = onnx_names_find(l->stated, name);
    *ret = i < 0                       ? NULL
           : (uint32_t)i < f->n_values ? &f->values[i]
                                       : &f->outputs[(uint32_t)i - f->n_values];
    return 0;
}

// The words name the operand that is the reason.
static int refuse_open(const struct onnx_lowering *l, uint32_t decides, const char *output,
                       struct error *e)
{
    const char *operand = l->g->tensors[l->in[__builtin_ctz(decides)]].name;
    return onnx_refuse(l, e,
                       "its input %s is known only in a run, and the file does not state the shape "
                       "of its output %s: make that input a constant, or state the shape",
                       operand, output);
}

static int shape_as_stated(struct onnx_lowering *l, uint32_t i, uint32_t decides, struct error *e)
{
    const char *name = l->g->tensors[l->out[i]].name;
    const struct onnx_value *v;
    uint32_t dims[GRAPH_MAX_DIMS];
    enum tensor_type type;
    int r = find_stated(l, name, &v, e);
    if (r < 0)
        return r;
    bool fixed = v && v->has_shape && onnx_type_of(v->type, &type);
    for (uint32_t k = 0; fixed && k < v->n_dims; k++) {
        fixed = v->dims[k] >= 0;
        dims[k] = (uint32_t)v->dims[k];
    }
    if (!fixed)
        return refuse_open(l, decides, name, e);
    l->g->tensors[l->out[i]].natural = v->type == ONNX_UINT64;
    return onnx_shape(l, i, type, v->n_dims, dims, e);
}

static int onnx_late_make(const struct graph *g, const struct graph_node *n,
                          const void *const *values, struct graph *ret, struct error *e);

static bool is_operand(const struct onnx_lowering *l, const char *name)
{
    for (uint32_t i = 0; i < l->n_in; i++)
        if (strcmp(l->node->inputs[i], name) == 0)
            return true;
    return false;
}

static int emit_late(struct onnx_lowering *l, uint32_t decides, const char *const *captured,
                     uint32_t n_captured, struct error *e)
{
    uint32_t n = l->n_in;
    struct late *late = pool_alloc(&l->g->pool, 1, sizeof *late);
    const char **names = pool_alloc(&l->g->pool, n + n_captured, sizeof *names);
    int32_t *in = pool_alloc(&l->g->pool, n + n_captured, sizeof *in);
    if (!late || !names || !in)
        return error_no_memory(e, "the graph", (n + n_captured) * sizeof *names);
    for (uint32_t i = 0; i < n; i++) {
        names[i] = l->node->inputs[i];
        in[i] = l->in[i];
    }
    for (uint32_t i = 0; i < n_captured; i++) // the node's own operands, known in a run, count
        if (!is_operand(l, captured[i])) {
            names[n] = captured[i];
            in[n++] = onnx_names_find(l->names, captured[i]);
        }
    for (uint32_t i = 0; i < n; i++)
        if (in[i] >= 0 && onnx_is_sequence(l, in[i]))
            return onnx_refuse(l, e, "it is settled in a run, and takes the sequence %s", names[i]);
    *late = (struct late){l->f, l->node, names, l->executor, l->depth};
    struct graph_node *node = onnx_emit(l, GRAPH_LATE, in, n, l->out, l->n_out, e);
    if (!node)
        return STATUS_MALLOC_FAIL;
    node->on_cpu = true;
    node->late = (struct graph_late){decides, onnx_late_make, late};
    return 0;
}

int onnx_lower_late(struct onnx_lowering *l, uint32_t decides, const char *const *captured,
                    uint32_t n_captured, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < l->n_out && r == 0; i++)
        if (l->out[i] >= 0)
            r = shape_as_stated(l, i, decides, e);
    return r < 0 ? r : emit_late(l, decides, captured, n_captured, e);
}

// An operand, or a constant of the graph around: a constant; else an input.
static int take_edge(struct onnx_lowering *l, const struct graph *g, const struct graph_node *n,
                     uint32_t i, const void *value, struct error *e)
{
    const struct late *late = n->late.reader;
    const struct graph_tensor *outside = &g->tensors[n->inputs[i]];
    int32_t index = onnx_tensor_new(l, late->names[i], e);
    if (index < 0)
        return index;
    struct graph_tensor *t = &l->g->tensors[index];
    *t = *outside;
    t->name = late->names[i];
    t->arena_offset = GRAPH_NO_OFFSET;
    t->arena_bytes = 0;
    if (value) {
        void *copy = pool_alloc(&l->g->pool, t->size, 1);
        if (!copy)
            return error_no_memory(e, "an operand", t->size);
        memcpy(copy, value, t->size);
        t->constant = true;
        t->channels_last = false;
        t->data = (struct bytes){copy, t->size};
    } else if (!t->constant) {
        t->channels_last = t->n_dims == 4;
        ((uint32_t *)(uintptr_t)l->g->inputs)[l->g->n_inputs++] = (uint32_t)index;
    }
    return onnx_names_set(l->names, late->names[i], index, e);
}

static int take_edges(struct onnx_lowering *l, const struct graph *g, const struct graph_node *n,
                      const void *const *values, struct error *e)
{
    l->g->inputs = pool_alloc(&l->g->pool, n->n_inputs, sizeof *l->g->inputs);
    int r = l->g->inputs ? 0 : error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < n->n_inputs && r == 0; i++)
        if (n->inputs[i] >= 0)
            r = take_edge(l, g, n, i, i < 32 && n->late.decides >> i & 1 ? values[i] : NULL, e);
    return r;
}

// The outputs that the node has are those of the graph.
static int list_outputs(struct onnx_file *f, const struct onnx_node *n, struct error *e)
{
    f->outputs = pool_alloc(f->pool, n->n_outputs, sizeof *f->outputs);
    f->n_outputs = 0;
    if (!f->outputs)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i][0])
            f->outputs[f->n_outputs++] = (struct onnx_value){.name = n->outputs[i]};
    return 0;
}

static void add_shape(char *text, size_t size, const struct graph_tensor *t)
{
    snprintf(text, size, "%s", tensor_type_name(t->type));
    for (uint32_t i = 0; i < t->n_dims; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%u", i ? "x" : " ", t->dims[i]);
    }
}

// Types and shapes must be those of the graph around.
static int check_outputs(const struct graph *made, const struct graph *g,
                         const struct graph_node *n, struct error *e)
{
    for (uint32_t i = 0, k = 0; i < n->n_outputs; i++) {
        if (n->outputs[i] < 0)
            continue;
        const struct graph_tensor *t = &made->tensors[made->outputs[k++]],
                                  *stated = &g->tensors[n->outputs[i]];
        char is[200], must[200];
        if (t->type == stated->type && t->n_dims == stated->n_dims &&
            memcmp(t->dims, stated->dims, t->n_dims * sizeof *t->dims) == 0)
            continue;
        add_shape(is, sizeof is, t);
        add_shape(must, sizeof must, stated);
        return graph_refuse(n, e,
                            "with these operands its output %s is %s, where the model was loaded "
                            "for %s",
                            stated->name, is, must);
    }
    return 0;
}

// Everything but the last check.
static int lower_one(struct onnx_lowering *l, const struct graph *g, const struct graph_node *n,
                     const void *const *values, struct error *e)
{
    const struct late *late = n->late.reader;
    int r = onnx_names_new(&l->names, NULL, e);
    if (r == 0)
        r = take_edges(l, g, n, values, e);
    if (r == 0)
        r = onnx_lower_nodes(l, late->node, 1, e);
    if (r == 0)
        r = onnx_lower_outputs(l, e);
    onnx_names_free(l->names);
    onnx_names_free(l->stated);
    return r;
}

static int make(const struct graph *g, const struct graph_node *n, const void *const *values,
                struct graph *ret, struct error *e)
{
    const struct late *late = n->late.reader;
    *ret = (struct graph){0};
    cleanup(free_p) struct onnx_lowering *l = calloc(1, sizeof *l);
    struct onnx_file *f = pool_alloc(&ret->pool, 1, sizeof *f); // nodes inside may be late as well
    if (!l || !f)
        return error_no_memory(e, "the graph", sizeof *l);
    *f = *late->f;
    f->pool = &ret->pool; // the file's own is shared by all threads
    int r = list_outputs(f, late->node, e);
    if (r == 0) {
        l->f = f;
        l->g = ret;
        l->executor = late->executor;
        l->depth = late->depth;
        r = lower_one(l, g, n, values, e);
    }
    if (r < 0)
        graph_done(ret);
    return r;
}

// graph_late.make of such nodes.
static int onnx_late_make(const struct graph *g, const struct graph_node *n,
                          const void *const *values, struct graph *ret, struct error *e)
{
    int r = make(g, n, values, ret, e);
    if (r < 0)
        return r;
    r = check_outputs(ret, g, n, e);
    if (r < 0)
        graph_done(ret);
    return r;
}

// ---- branches, while a model is loaded ----

// The outputs of the last node get the types and shapes that this value of its input 0 gives them.
static int shape_as_chosen(struct onnx_lowering *l, uint8_t value, struct error *e)
{
    const struct graph_node n = l->g->nodes[l->g->n_nodes - 1];
    const void *values[1] = {&value};
    struct graph made;
    int r = make(l->g, &n, values, &made, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0, k = 0; i < l->n_out && r == 0; i++) {
        if (l->out[i] < 0)
            continue;
        const struct graph_tensor *t = &made.tensors[made.outputs[k++]];
        l->g->tensors[l->out[i]].natural = t->natural;
        r = onnx_shape_like(l, i, t, e);
    }
    graph_done(&made);
    return r;
}

int onnx_lower_choice(struct onnx_lowering *l, const char *const *captured, uint32_t n_captured,
                      struct error *e)
{
    int r = emit_late(l, 1, captured, n_captured, e);
    if (r < 0)
        return r;
    r = shape_as_chosen(l, 1, e);
    return r < 0 && shape_as_chosen(l, 0, NULL) == 0 ? 0 : r;
}
