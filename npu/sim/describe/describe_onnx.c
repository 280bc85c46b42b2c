// What an ONNX file says, as JSON (like describe_rknn.c), and what the executor makes of it.
//
// nodes:         those of the file, with types and shapes as far as known
// layers, steps: those that run, after constant folding and fusion
//
// ONNX files rarely state the shapes of intermediate tensors; they are taken from the graph that
// the executor built.
#include "npu/model/onnx/onnx_graph.h"
#include "npu/sim/describe/describe.h"
#include "npu/sim/describe/describe_json.h"
#include "npu/sim/exec/memory_plan.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/sim_executor.h"

// null: a dimension that is chosen when the model is loaded.
static json_t *dims_of(const int64_t *dims, uint32_t n)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(shape, dims[i] < 0 ? json_null() : json_integer((json_int_t)dims[i]));
    return shape;
}

static json_t *typed(const char *name, int32_t onnx_type, json_t *shape)
{
    enum tensor_type type;
    const char *words = onnx_type_of(onnx_type, &type) ? tensor_type_name(type) : "unknown";
    return json_pack("{s:o, s:s, s:o}", "name", json_text(name), "type", words, "shape", shape);
}

static json_t *value(const struct onnx_value *v)
{
    return typed(v->name, v->type, dims_of(v->dims, v->n_dims));
}

static json_t *graph_tensor(const struct graph_tensor *t)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer(t->dims[i]));
    return json_pack("{s:o, s:s, s:o}", "name", json_text(t->name), "type",
                     tensor_type_name(t->type), "shape", shape);
}

// ---- tensors by name ---------------------------------------------------------------------------

// `known`: tensors by name. Takes over `tensor`; a later note of a name replaces the former.
static void note(json_t *known, const char *name, json_t *tensor)
{
    json_object_set_new(known, name, tensor);
}

static void note_values(json_t *known, const struct onnx_value *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i].has_shape)
            note(known, list[i].name, value(&list[i]));
}

// Type and shape of each tensor for which the file states them.
static void note_file(json_t *known, const struct onnx_file *f)
{
    note_values(known, f->values, f->n_values);
    note_values(known, f->outputs, f->n_outputs);
    note_values(known, f->inputs, f->n_inputs);
    for (uint32_t i = 0; i < f->n_initializers; i++) {
        const struct onnx_tensor *t = &f->initializers[i];
        note(known, t->name, typed(t->name, t->type, dims_of(t->dims, t->n_dims)));
    }
}

// Adds tensors that the file does not describe, from the executor's graph. Helper tensors of a
// lowered node carry the node's name, so names may repeat; where two differ, neither is shown.
static void note_graph(json_t *known, const struct graph *g)
{
    json_t *found = json_object();
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const char *name = g->tensors[i].name;
        json_t *before = name ? json_object_get(found, name) : NULL;
        if (!name || !g->tensors[i].n_elems)
            continue;
        json_t *tensor = graph_tensor(&g->tensors[i]);
        if (before && !json_equal(before, tensor)) {
            json_decref(tensor);
            tensor = json_null();
        }
        note(found, name, tensor);
    }
    json_object_update_missing(known, found);
    json_decref(found);
}

// ---- the file's nodes --------------------------------------------------------------------------

// Tensors with type and shape where these are known; null for an empty name, which ONNX uses for an
// optional input that is left out.
static json_t *edges(json_t *known, const char **list, uint32_t n)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_t *tensor = json_object_get(known, list[i]);
        if (!list[i][0])
            json_array_append_new(all, json_null());
        else if (json_is_object(tensor))
            json_array_append(all, tensor);
        else
            json_array_append_new(all, json_pack("{s:o}", "name", json_text(list[i])));
    }
    return all;
}

static json_t *nodes(const struct onnx_file *f, json_t *known)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct onnx_node *n = &f->nodes[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", "name", json_text(n->name),
                                              "op", json_text(n->op), "inputs",
                                              edges(known, n->inputs, n->n_inputs), "outputs",
                                              edges(known, n->outputs, n->n_outputs)));
    }
    return list;
}

static json_t *op_counts(const struct onnx_file *f)
{
    json_t *counts = json_object();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        json_int_t before = json_integer_value(json_object_get(counts, f->nodes[i].op));
        json_object_set_new(counts, f->nodes[i].op, json_integer(before + 1));
    }
    return counts;
}

// Before IR version 4, initializers are listed among the inputs too; they are not inputs to set.
static bool has_default(const struct onnx_file *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_initializers; i++)
        if (strcmp(f->initializers[i].name, name) == 0)
            return true;
    return false;
}

static void add_file(json_t *root, const struct onnx_file *f)
{
    json_t *inputs = json_array(), *outputs = json_array();
    for (uint32_t i = 0; i < f->n_inputs; i++)
        if (!has_default(f, f->inputs[i].name))
            json_array_append_new(inputs, value(&f->inputs[i]));
    for (uint32_t i = 0; i < f->n_outputs; i++)
        json_array_append_new(outputs, value(&f->outputs[i]));
    json_object_set_new(root, "ir_version", json_integer((json_int_t)f->ir_version));
    json_object_set_new(root, "operator_set", json_integer((json_int_t)f->opset));
    json_object_set_new(root, "inputs", inputs);
    json_object_set_new(root, "outputs", outputs);
    json_object_set_new(root, "operators", op_counts(f));
}

// ---- what the executor makes of it -------------------------------------------------------------

// With the tensor's number, which tells tensors of the same name apart.
static void add_edge(json_t *list, const struct graph *g, int32_t tensor)
{
    if (tensor < 0)
        return;
    json_t *edge = graph_tensor(&g->tensors[tensor]);
    json_object_set_new(edge, "tensor", json_integer(tensor));
    json_array_append_new(list, edge);
}

// A node that runs. Operands of fused additions are inputs as well.
static json_t *layer(const struct graph *g, const struct graph_node *n)
{
    json_t *inputs = json_array(), *outputs = json_array();
    for (uint32_t i = 0; i < n->n_inputs; i++)
        add_edge(inputs, g, n->inputs[i]);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            add_edge(inputs, g, n->post[i].operand);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        add_edge(outputs, g, n->outputs[i]);
    return json_pack("{s:o, s:o, s:s, s:o, s:o}", "name", json_text(n->name), "op",
                     json_text(n->type), "device", n->on_cpu ? "CPU" : "NPU", "inputs", inputs,
                     "outputs", outputs);
}

static void add_layers(json_t *root, const struct plan *p)
{
    json_t *layers = json_array(), *steps = json_array();
    for (uint32_t i = 0; i < p->n_steps; i++) {
        json_array_append_new(layers, layer(p->graph, p->steps[i].node));
        json_array_append_new(steps, json_text(p->steps[i].node->name));
    }
    json_object_set_new(root, "layers", layers);
    json_object_set_new(root, "steps", steps);
}

struct arena {
    const struct plan *plan;
    json_t *places;
};

static void add_place(void *user, uint32_t tensor, int32_t from, int32_t to)
{
    const struct arena *a = user;
    const struct graph_tensor *t = &a->plan->graph->tensors[tensor];
    json_array_append_new(
        a->places, json_pack("{s:o, s:I, s:I, s:i, s:i, s:b}", "name", json_text(t->name), "offset",
                             (json_int_t)a->plan->offsets[tensor], "size", (json_int_t)t->size,
                             "from", (int)from, "to", (int)to, "outside", 0));
}

// Of several shape sets, shows the one with the largest arena.
static int add_plan(json_t *root, const struct plan *p, struct error *e)
{
    json_int_t before = json_integer_value(json_object_get(root, "arena_size"));
    struct arena a = {p, json_array()};
    int r = memory_plan_visit(p, add_place, &a, e);
    if (r == 0 && p->arena_size > (uint64_t)before) {
        json_object_set_new(root, "arena_size", json_integer((json_int_t)p->arena_size));
        json_object_set(root, "arena", a.places);
        describe_count(root, p->graph);
        add_layers(root, p);
    }
    json_decref(a.places);
    return r;
}

// Loads and plans shape set as a context would and keeps nothing: tells whether it runs.
static int try_shape_set(json_t *root, json_t *known, struct bytes file,
                         const struct load_options *options, uint32_t shape_set, struct error *e)
{
    struct graph g;
    struct plan p;
    int r = onnx_graph(&g, file, options, shape_set, &sim_executor, e);
    if (r < 0)
        return r;
    r = plan_init(&p, &g, e);
    if (r == 0) {
        note_graph(known, &g);
        r = add_plan(root, &p, e);
        plan_done(&p);
    }
    graph_done(&g);
    return r;
}

static int try_to_load(json_t *root, json_t *known, struct bytes file,
                       const struct load_options *options, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < options->n_shape_sets && r == 0; i++)
        r = try_shape_set(root, known, file, options, i, e);
    return r;
}

int describe_onnx(struct bytes file, const char *options, char **ret, struct error *e)
{
    struct onnx_file f;
    struct load_options parsed;
    struct pool pool = {0};
    struct error why = {0};
    json_t *known = json_object();
    json_t *root = json_pack("{s:s, s:I}", "container", "onnx", "file_size", (json_int_t)file.size);
    int r = onnx_file_read(&f, &pool, file, &why);
    bool readable = r == 0;
    if (readable) {
        add_file(root, &f);
        note_file(known, &f);
        r = load_options_parse(&parsed, &pool, options, &why);
    }
    if (r == 0)
        r = try_to_load(root, known, file, &parsed, &why);
    if (readable)
        json_object_set_new(root, "nodes", nodes(&f, known));
    pool_done(&pool);
    json_decref(known);
    return json_finish(root, r < 0 ? &why : NULL, ret, e);
}
