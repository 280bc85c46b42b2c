// Layers as the vendor's tools show them: times by node, added up where a node is run in parts, and
// tensors as programs see them, converted from how they lie in the arena.
#include "npu/open/open_layers.h"

#include <stdio.h>

#include "npu/open/open_io.h"
#include "npu/sim/sim_io.h"

#define SHAPES_LENGTH 256

void open_layers_begin(struct npu_context *c)
{
    c->n_layers = 0;
    pool_done(&c->texts);
    c->texts = (struct pool){0};
}

// ---- times ----

// "(1,3,224,224),(64,3,7,7)", cut to fit.
static const char *shapes_of(struct npu_context *c, const int32_t *tensors, uint32_t n)
{
    char text[SHAPES_LENGTH];
    struct bytes made = {(const uint8_t *)text, 0};
    FILE *f = fmemopen(text, sizeof text, "w");
    if (!f)
        return NULL;
    setbuf(f, NULL);
    for (uint32_t i = 0; i < n; i++) {
        if (tensors[i] < 0)
            continue;
        const struct rknn_tensor *t = &c->model->file.tensors[tensors[i]];
        fprintf(f, "%s(", ftell(f) ? "," : "");
        for (uint32_t d = 0; d < t->n_dims; d++)
            fprintf(f, "%s%u", d ? "," : "", t->dims[d]);
        fputc(')', f);
    }
    long length = ftell(f);
    made.size = length > 0 ? size_min((size_t)length, sizeof text) : 0;
    fclose(f);
    return pool_text(&c->texts, made);
}

static uint32_t core_mask_of(const struct rknn_schedule *schedule, uint32_t node)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < schedule->n_cores; i++)
        mask |= (uint32_t)(schedule->tasks[(size_t)node * schedule->n_cores + i].n != 0) << i;
    return mask;
}

static int describe_layer(struct npu_context *c, uint32_t node,
                          const struct rknn_schedule *schedule, struct npu_layer *l,
                          struct error *e)
{
    const struct npu_model *m = c->model;
    const struct rknn_node *n = &m->file.nodes[node];
    bool typed = n->n_outputs && n->outputs[0] >= 0;
    bool on_npu = m->steps[node] == OPEN_NPU;
    *l = (struct npu_layer){
        .name = n->name,
        .op = n->op,
        .type = typed ? tensor_type_name(m->graph.tensors[n->outputs[0]].type) : "",
        .target = on_npu ? "NPU" : "CPU",
        .input_shapes = shapes_of(c, n->inputs, n->n_inputs),
        .output_shapes = shapes_of(c, n->outputs, n->n_outputs),
        .core_mask = on_npu ? core_mask_of(schedule, node) : 0,
        .n_tasks = on_npu ? schedule->tasks[(size_t)node * schedule->n_cores].n : 0,
    };
    return l->input_shapes && l->output_shapes ? 0 : error_no_memory(e, "the layers", 0);
}

int open_layers_note(struct npu_context *c, uint32_t node, const struct rknn_schedule *schedule,
                     uint64_t us, struct error *e)
{
    const char *name = c->model->file.nodes[node].name;
    struct npu_layer *l = NULL;
    for (size_t i = 0; i < c->n_layers && !l; i++)
        if (c->layers[i].name == name)
            l = &c->layers[i];
    if (!l) {
        l = &c->layers[c->n_layers];
        int s = describe_layer(c, node, schedule, l, e);
        if (s < 0)
            return s;
        c->n_layers++;
    }
    l->time_us += us;
    return 0;
}

// ---- tensors ----

static int show_tensor(struct npu_context *c, const struct rknn_node *n, uint32_t tensor,
                       struct npu_tap *tap, struct error *e)
{
    const struct graph_tensor *t = &c->model->graph.tensors[tensor];
    struct tensor_attr attr;
    struct npu_tensor shown = {.attr = &attr, .node = n->name, .op = n->op, .data = c->dense};
    if (!tap->wants(tap, t->name))
        return 0;
    int s = sim_describe_tensor(t, &attr, e);
    if (s == 0)
        s = open_read_tensor(c, tensor, false, c->dense, e);
    if (s == 0)
        s = tap->tensor(tap, &shown, e);
    return s == 1 ? open_write_tensor(c, tensor, false, c->dense, e) : s;
}

int open_layers_show(struct npu_context *c, uint32_t node, struct npu_tap *tap, struct error *e)
{
    const struct rknn_node *n = &c->model->file.nodes[node];
    int s = 0;
    for (uint32_t i = 0; i < n->n_outputs && s == 0; i++)
        if (n->outputs[i] >= 0)
            s = show_tensor(c, n, (uint32_t)n->outputs[i], tap, e);
    return s < 0 ? error_prefix(e, "node %s (%s)", n->name, n->op) : 0;
}
