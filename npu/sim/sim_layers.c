// Names and costs of layers.
#include "npu/sim/sim_layers.h"

#include <stdio.h>

#define SHAPES_LENGTH 256

static size_t append_shape(char *text, size_t at, const struct graph_tensor *t)
{
    at += (size_t)snprintf(text + at, at < SHAPES_LENGTH ? SHAPES_LENGTH - at : 0, "%s(",
                           at ? "," : "");
    for (uint32_t i = 0; i < t->n_dims && at < SHAPES_LENGTH; i++)
        at += (size_t)snprintf(text + at, SHAPES_LENGTH - at, "%s%u", i ? "," : "", t->dims[i]);
    return at + (size_t)snprintf(text + (at < SHAPES_LENGTH ? at : SHAPES_LENGTH - 1),
                                 at < SHAPES_LENGTH ? SHAPES_LENGTH - at : 0, ")");
}

// "(1,3,224,224),(64,3,7,7)", cut to fit.
static const char *shapes(const struct graph *g, struct pool *pool, const int32_t *indices,
                          uint32_t n)
{
    char text[SHAPES_LENGTH + 1] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < n && at < SHAPES_LENGTH; i++)
        if (indices[i] >= 0)
            at = append_shape(text, at, &g->tensors[indices[i]]);
    return pool_text(pool, (struct bytes){(const uint8_t *)text, strlen(text)});
}

static uint64_t bytes_of(const struct graph *g, const int32_t *indices, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += indices[i] >= 0 ? g->tensors[indices[i]].size : 0;
    return sum;
}

static void count_conv(const struct graph *g, const struct graph_node *n, const struct chip *chip,
                       struct npu_layer *l)
{
    const struct graph_tensor *w = &g->tensors[n->inputs[1]], *y = &g->tensors[n->outputs[0]];
    uint64_t pixels = y->n_elems / y->dims[1], taps = (uint64_t)w->dims[2] * w->dims[3];
    bool depthwise = n->window.groups > 1 && w->dims[1] == 1;
    l->macs = y->n_elems * taps * w->dims[1];
    l->npu_cycles = chip_conv_cycles(chip, w->type != TENSOR_INT8, pixels, taps, w->dims[1],
                                     y->dims[1], depthwise);
}

static void count(const struct graph *g, const struct graph_node *n, const struct chip *chip,
                  struct npu_layer *l)
{
    l->read_bytes = bytes_of(g, n->inputs, n->n_inputs);
    l->write_bytes = bytes_of(g, n->outputs, n->n_outputs);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            l->read_bytes += g->tensors[n->post[i].operand].size;
    if (n->on_cpu)
        return;
    if (n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE)
        count_conv(g, n, chip, l);
    l->ddr_cycles = (l->read_bytes + l->write_bytes) / chip->ddr_bytes_per_cycle;
    l->total_cycles = l->npu_cycles > l->ddr_cycles ? l->npu_cycles : l->ddr_cycles;
}

int sim_layers(const struct graph *g, const struct chip *chip, struct pool *pool,
               struct npu_layer **ret, struct error *e)
{
    struct npu_layer *layers = pool_alloc(pool, g->n_nodes, sizeof *layers);
    if (!layers)
        return error_no_memory(e, "the layers", g->n_nodes * sizeof *layers);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        struct npu_layer *l = &layers[i];
        bool has_output = n->n_outputs && n->outputs[0] >= 0;
        l->name = n->name;
        l->op = n->type;
        l->type = has_output ? tensor_type_name(g->tensors[n->outputs[0]].type) : "";
        l->target = n->on_cpu ? "CPU" : "NPU";
        l->input_shapes = shapes(g, pool, n->inputs, n->n_inputs);
        l->output_shapes = shapes(g, pool, n->outputs, n->n_outputs);
        if (!l->input_shapes || !l->output_shapes)
            return error_no_memory(e, "the layers", 0);
        count(g, n, chip, l);
    }
    *ret = layers;
    return 0;
}
