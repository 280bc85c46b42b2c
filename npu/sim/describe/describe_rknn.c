// Everything a .rknn file says, as JSON: "rknnctl info" prints it, views and comparisons read it.
// The file is untrusted. Files that cannot be run are described as well, as far as they could be
// read, with the reason as "refused".
//
// container, file_size                        always
// chip, inputs, outputs, nodes, attributes    if the file could be parsed
// macs, estimate, layer_estimates, arena      if it can be run
#include "npu/sim/describe/describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "npu/model/graph_count.h"
#include "npu/model/rknn/pyliteral.h"
#include "npu/model/rknn/rknn_attrs.h"
#include "npu/model/rknn/rknn_chip.h"
#include "npu/sim/cost/estimate_graph.h"
#include "npu/sim/describe/describe_json.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/sim_layers.h"
#include "npu/sim/sim_rknn.h"

// JSON has no NaN or infinity: null.
static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

// JSON text that the file contains; null if it is not well-formed.
static json_t *parsed(const char *json)
{
    json_t *j = json_loads(json, JSON_DECODE_ANY, NULL);
    return j ? j : json_null();
}

static const char *type_name(uint8_t type)
{
    static const char *const names[] = {
        [RKNN_F32] = "FP32",  [RKNN_U8] = "UINT8",  [RKNN_I8] = "INT8",
        [RKNN_I16] = "INT16", [RKNN_I32] = "INT32", [RKNN_I64] = "INT64",
        [RKNN_BOOL] = "BOOL", [RKNN_F16] = "FP16",  [RKNN_U64] = "UINT64",
    };
    return type < sizeof names / sizeof *names && names[type] ? names[type] : "unknown";
}

static const char *layout_name(uint8_t layout)
{
    switch (layout) {
    case RKNN_NO_LAYOUT:
        return "none";
    case RKNN_NCHW:
        return "NCHW";
    case RKNN_NC1HWC2:
        return "NC1HWC2";
    case RKNN_WEIGHT:
        return "weight";
    default:
        return "unknown";
    }
}

static json_t *numbers(const uint32_t *v, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

// A tensor of the file. Quantization is shown only where the file has scales.
static json_t *tensor(const struct rknn_tensor *t)
{
    json_t *j =
        json_pack("{s:o, s:s, s:s, s:o, s:o, s:I, s:I}", "name", json_text(t->name), "type",
                  type_name(t->type), "layout", layout_name(t->layout), "shape",
                  numbers(t->dims, t->n_dims), "native_shape", numbers(t->native, t->n_native),
                  "size", (json_int_t)t->size, "offset", (json_int_t)t->offset);
    if (t->n_scales) {
        json_object_set_new(j, "scale", real((double)t->scale));
        json_object_set_new(j, "zero_point", json_integer(t->zp));
        json_object_set_new(j, "min", real((double)t->min));
        json_object_set_new(j, "max", real((double)t->max));
    }
    return j;
}

// An input with its preprocessing. Only images of up to 4 channels have mean, std and channel
// order; `std` divides.
static json_t *input(const struct rknn_file *f, uint32_t i)
{
    const struct rknn_tensor *t = &f->tensors[f->inputs[i]];
    const struct rknn_preprocess *p = &f->preprocess[i];
    json_t *j = tensor(t), *mean = json_array(), *std = json_array(), *order = json_array();
    uint32_t channels = t->n_dims == 4 && t->dims[1] <= 4 ? t->dims[1] : 0;
    for (uint32_t c = 0; c < channels; c++) {
        json_array_append_new(mean, real((double)p->mean[c]));
        json_array_append_new(std, real((double)p->std[c]));
        json_array_append_new(order, json_integer(p->order[c]));
    }
    json_object_set_new(j, "mean", mean);
    json_object_set_new(j, "std", std);
    json_object_set_new(j, "channel_order", order);
    json_object_set_new(j, "stride_alignment", json_integer(t->stride_align));
    return j;
}

// Inputs or outputs of a node; null: left out.
static json_t *edges(const struct rknn_file *f, const int32_t *indices, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        if (indices[i] < 0) {
            json_array_append_new(list, json_null());
            continue;
        }
        const struct rknn_tensor *t = &f->tensors[indices[i]];
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:o}", "name", json_text(t->name), "type",
                                        type_name(t->type), "shape", numbers(t->dims, t->n_dims)));
    }
    return list;
}

static json_t *nodes(const struct rknn_file *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct rknn_node *n = &f->nodes[i];
        json_t *j = json_pack("{s:o, s:o, s:s, s:o, s:o, s:I}", "name", json_text(n->name), "op",
                              json_text(n->op), "device", n->device ? "NPU" : "CPU", "inputs",
                              edges(f, n->inputs, n->n_inputs), "outputs",
                              edges(f, n->outputs, n->n_outputs), "tasks", (json_int_t)n->n_tasks);
        json_object_set_new(j, "attributes", rknn_attrs_json(n));
        json_array_append_new(list, j);
    }
    return list;
}

// How many nodes of each operator there are. Inputs and outputs are no work for the CPU.
static json_t *op_counts(const struct rknn_file *f, bool on_cpu)
{
    json_t *counts = json_object();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const char *op = f->nodes[i].op;
        bool port = strcmp(op, "InputOperator") == 0 || strcmp(op, "OutputOperator") == 0;
        if (on_cpu && (port || f->nodes[i].device != 0))
            continue;
        json_int_t before = json_integer_value(json_object_get(counts, op));
        json_object_set_new(counts, op, json_integer(before + 1));
    }
    return counts;
}

// Build attributes are a Python literal in the file (pyliteral.c). Without them, or if they cannot
// be parsed, the keys are missing.
static void add_attrs(json_t *root, const struct rknn_file *f)
{
    json_t *attrs;
    if (!f->attrs_text[0] || pyliteral_parse(f->attrs_text, &attrs, NULL) < 0)
        return;
    json_t *shapes = json_object_get(attrs, "dynamic_shapes");
    json_object_set(root, "dynamic_shapes", shapes ? shapes : json_null());
    json_object_set_new(root, "build_attributes", attrs);
}

// What the file states itself, before anything is computed from it.
static void add_file(json_t *root, const struct rknn_file *f)
{
    json_object_set_new(root, "chip", json_text(f->chip));
    json_object_set_new(root, "platform", json_text(f->platform));
    json_object_set_new(root, "toolkit", json_text(f->toolkit));
    json_object_set_new(root, "compiler_version", json_integer(f->compiler_version));
    json_object_set_new(root, "framework", json_text(f->framework));
    json_object_set_new(root, "custom_string", json_text(f->custom_string));
    json_object_set_new(root, "custom_operators", json_text(f->custom_ops));
    json_object_set_new(root, "weight_size", json_integer((json_int_t)f->weight_size));
    json_object_set_new(root, "internal_size", json_integer((json_int_t)f->internal_size));
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_inputs; i++)
        json_array_append_new(list, input(f, i));
    json_object_set_new(root, "inputs", list);
    list = json_array();
    for (uint32_t i = 0; i < f->n_outputs; i++)
        json_array_append_new(list, tensor(&f->tensors[f->outputs[i]]));
    json_object_set_new(root, "outputs", list);
    json_object_set_new(root, "input_forms", parsed(f->input_json));
    json_object_set_new(root, "output_forms", parsed(f->output_json));
    json_object_set_new(root, "operators", op_counts(f, false));
    json_object_set_new(root, "operators_on_cpu", op_counts(f, true));
    add_attrs(root, f);
    json_object_set_new(root, "nodes", nodes(f));
    json_t *build =
        json_loadb((const char *)f->container.json.data, f->container.json.size, 0, NULL);
    if (build)
        json_object_set_new(root, "target_platform",
                            json_incref(json_object_get(build, "target_platform")));
    json_decref(build);
}

// JSON integers here are signed 64-bit; larger values saturate.
static json_t *integer(uint64_t v)
{
    return json_integer(v < INT64_MAX ? (json_int_t)v : INT64_MAX);
}

void describe_count(json_t *root, const struct graph *g)
{
    struct graph_count count;
    if (graph_count(g, &count, NULL) < 0)
        return;
    json_object_set_new(root, "macs", integer(count.macs));
    json_object_set_new(root, "parameters", integer(count.parameters));
}

// Percentage of the multipliers at work in `cycles`; null: unknown.
static json_t *usage(uint64_t mac_cycles, uint64_t cycles)
{
    return cycles ? json_real(100.0 * (double)mac_cycles / (double)cycles) : json_null();
}

// Percentage of the layer's work that each core does.
static json_t *work_loads(const struct npu_layer *l, uint32_t n_cores)
{
    json_t *list = json_array();
    double sum = 0;
    for (uint32_t i = 0; i < n_cores; i++)
        sum += (double)l->core_work[i];
    for (uint32_t i = 0; i < n_cores && sum > 0; i++)
        json_array_append_new(list, json_real(100 * (double)l->core_work[i] / sum));
    return list;
}

// One layer by the cost model: cycles of the chip's clock, microseconds, bytes.
static json_t *layer_estimate(const struct npu_layer *l, const struct chip *chip)
{
    json_t *j = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o}", "node", json_text(l->name), "macs",
        integer(l->macs), "ddr_cycles", integer(l->ddr_cycles), "npu_cycles",
        integer(l->npu_cycles), "total_cycles", integer(l->total_cycles), "us",
        estimate_us(chip, l->total_cycles), "mac_usage", usage(l->mac_cycles, l->total_cycles),
        "read_bytes", integer(l->read_bytes), "write_bytes", integer(l->write_bytes));
    json_object_set_new(j, "work_load", work_loads(l, chip->n_cores));
    return j;
}

static json_t *layer_estimates(const struct graph *g, const struct chip *chip,
                               const struct npu_layer *layers)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < g->n_nodes; i++)
        json_array_append_new(list, layer_estimate(&layers[i], chip));
    return list;
}

// Sums over all layers, and the internal memory with its part in SRAM.
static json_t *model_estimate(const struct graph *g, const struct chip *chip,
                              const struct npu_layer *layers)
{
    struct npu_layer sum = {0};
    struct estimate_memory memory;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        sum.macs += layers[i].macs;
        sum.mac_cycles += layers[i].mac_cycles;
        sum.total_cycles += layers[i].total_cycles;
        sum.read_bytes += layers[i].read_bytes;
        sum.write_bytes += layers[i].write_bytes;
    }
    json_t *j = json_pack("{s:s, s:o, s:o, s:f, s:o, s:o, s:o}", "chip", chip->name, "macs",
                          integer(sum.macs), "cycles", integer(sum.total_cycles), "us",
                          estimate_us(chip, sum.total_cycles), "mac_usage",
                          usage(sum.mac_cycles, sum.total_cycles), "read_bytes",
                          integer(sum.read_bytes), "write_bytes", integer(sum.write_bytes));
    if (estimate_memory(g, chip, &memory, NULL) == 0) {
        json_object_set_new(j, "weight_bytes", integer(memory.weight_bytes));
        json_object_set_new(j, "internal_bytes", integer(memory.use.internal_bytes));
        json_object_set_new(j, "sram_size", integer(chip->sram_size));
        json_object_set_new(j, "sram_bytes", integer(memory.use.sram_bytes));
    }
    return j;
}

// One tensor of the chip's internal memory: offset, bytes, live range in nodes.
static void add_place(void *list, const struct graph_tensor *t, const struct sram_tensor *where)
{
    json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:i, s:i, s:b}", "name",
                                          json_text(t->name), "offset", integer(where->offset),
                                          "size", integer(where->size), "from", (int)where->from,
                                          "to", (int)where->to, "outside", (int)where->outside));
}

// Estimates of a run with all cores of the chip; left out where there is no memory for them.
static void add_estimates(json_t *root, const struct graph *g, const struct chip *chip)
{
    struct pool pool = {0};
    struct npu_layer *layers;
    if (sim_layers(g, chip, &pool, &layers, NULL) == 0) {
        estimate_shares(g, chip, (1u << chip->n_cores) - 1, layers);
        json_object_set_new(root, "estimate", model_estimate(g, chip, layers));
        json_object_set_new(root, "layer_estimates", layer_estimates(g, chip, layers));
        json_t *places = json_array(), *steps = json_array();
        for (uint32_t i = 0; i < g->n_nodes; i++)
            json_array_append_new(steps, json_text(g->nodes[i].name));
        if (estimate_memory_plan(g, add_place, places, NULL) == 0)
            json_object_set(root, "arena", places);
        json_object_set_new(root, "steps", steps);
        json_decref(places);
    }
    pool_done(&pool);
}

// Nodes that are computed by their own register programs, and why.
static void add_programs(json_t *root, const struct plan *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].unread)
            json_array_append_new(list, json_text(p->steps[i].unread));
    if (json_array_size(list))
        json_object_set(root, "by_program", list);
    json_decref(list);
}

// What a description is made of.
struct description {
    json_t *root;
    const struct chip *chip;
};

static int describe_graph(void *user, struct graph *g, struct error *e)
{
    const struct description *d = user;
    struct plan p;
    json_object_set_new(d->root, "arena_size", json_integer((json_int_t)g->arena_size));
    int r = plan_init(&p, g, e);
    if (r == 0) {
        describe_count(d->root, g);
        add_estimates(d->root, g, d->chip);
        add_programs(d->root, &p);
        plan_done(&p);
    }
    graph_done(g);
    return r;
}

// Loads and plans the model as a context would and keeps nothing: tells whether it runs.
static int try_to_load(const struct sim_options *o, const struct rknn_file *f, json_t *root,
                       struct error *e)
{
    struct description d = {.root = root};
    struct graph_programs *programs = NULL;
    int r = rknn_find_chip(o->chip, f, &d.chip, e);
    const struct sim_rknn load = {.file = f,
                                  .chip = d.chip,
                                  .by_program = o->programs,
                                  .strict = o->strict,
                                  .take = describe_graph,
                                  .user = &d};
    if (r == 0)
        describe_defects(root, f, d.chip);
    if (r == 0)
        r = sim_rknn_load(&load, &programs, e);
    program_free(programs);
    return r;
}

static const char *container_name(const struct rknn_container *c)
{
    switch (c->kind) {
    case RKNN_PLAIN:
        return c->version == 1 ? "rknn 1" : c->version == 2 ? "rknn 2" : "rknn 6";
    case RKNN_LITE:
        return "rknn 0x1004";
    case RKNN_ENCRYPTED:
        return "encrypted";
    case RKNN_NEXT:
        return "next generation";
    case RKNN_BINARY_GRAPH:
        return "binary graph";
    default:
        return "unknown";
    }
}

int describe_rknn(const struct sim_options *options, struct bytes file, char **ret, struct error *e)
{
    struct rknn_file f;
    struct error why = {0};
    json_t *root = json_object();
    int r = rknn_file_open(&f, file, &why);
    json_object_set_new(root, "container", json_string(container_name(&f.container)));
    json_object_set_new(root, "file_size", json_integer((json_int_t)file.size));
    if (r == 0) {
        add_file(root, &f);
        r = try_to_load(options, &f, root, &why);
        rknn_file_done(&f);
    }
    return json_finish(root, r < 0 ? &why : NULL, ret, e);
}
