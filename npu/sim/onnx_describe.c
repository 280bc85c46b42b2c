// What an ONNX file says, as JSON.
#include "npu/sim/json.h"
#include "npu/sim/onnx_graph.h"
#include "npu/sim/places.h"

static json_t *value(const struct onnx_value *v)
{
    enum tensor_type type;
    json_t *shape = json_array();
    for (uint32_t i = 0; i < v->n_dims; i++)
        json_array_append_new(shape,
                              v->dims[i] < 0 ? json_null() : json_integer((json_int_t)v->dims[i]));
    const char *name = onnx_type_of(v->type, &type) ? tensor_type_name(type) : "unknown";
    return json_pack("{s:o, s:s, s:o}", "name", json_text(v->name), "type", name, "shape", shape);
}

static json_t *names(const char **list, uint32_t n)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(all, json_text(list[i]));
    return all;
}

static json_t *nodes(const struct onnx_file *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct onnx_node *n = &f->nodes[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:o, s:o}", "name", json_text(n->name), "op",
                                        json_text(n->op), "inputs", names(n->inputs, n->n_inputs),
                                        "outputs", names(n->outputs, n->n_outputs)));
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
    json_object_set_new(root, "nodes", nodes(f));
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
                             (json_int_t)a->plan->places[tensor], "size", (json_int_t)t->size,
                             "from", (int)from, "to", (int)to, "outside", 0));
}

// What the executor makes of it: of several rows of shapes the one with the largest arena.
static int add_arena(json_t *root, const struct plan *p, struct error *e)
{
    json_int_t before = json_integer_value(json_object_get(root, "arena_size"));
    struct arena a = {p, json_array()};
    int r = places_visit(p, add_place, &a, e);
    if (r == 0 && p->arena_size > (uint64_t)before) {
        json_t *steps = json_array();
        for (uint32_t i = 0; i < p->n_steps; i++)
            json_array_append_new(steps, json_text(p->steps[i].node->name));
        json_object_set_new(root, "arena_size", json_integer((json_int_t)p->arena_size));
        json_object_set(root, "arena", a.places);
        json_object_set_new(root, "steps", steps);
    }
    json_decref(a.places);
    return r;
}

// Whether it runs: the way of loading, without keeping anything.
static int try_row(json_t *root, struct bytes file, const struct load_options *options,
                   uint32_t row, struct error *e)
{
    struct graph g;
    struct plan p;
    int r = onnx_graph(&g, file, options, row, e);
    if (r < 0)
        return r;
    r = plan_init(&p, &g, e);
    if (r == 0) {
        r = add_arena(root, &p, e);
        plan_done(&p);
    }
    graph_done(&g);
    return r;
}

static int try_to_load(json_t *root, struct bytes file, const struct load_options *options,
                       struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < options->n_rows && r == 0; i++)
        r = try_row(root, file, options, i, e);
    return r;
}

int onnx_describe(struct bytes file, const char *options, char **ret, struct error *e)
{
    struct onnx_file f;
    struct load_options parsed;
    struct pool pool = {0};
    struct error why = {0};
    json_t *root = json_pack("{s:s, s:I}", "container", "onnx", "file_size", (json_int_t)file.size);
    int r = onnx_file_read(&f, &pool, file, &why);
    if (r == 0) {
        add_file(root, &f);
        r = load_options_parse(&parsed, &pool, options, &why);
    }
    if (r == 0)
        r = try_to_load(root, file, &parsed, &why);
    pool_done(&pool);
    return json_finish(root, r < 0 ? &why : NULL, ret, e);
}
