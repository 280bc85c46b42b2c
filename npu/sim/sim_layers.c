// One row per node of the graph for profiles (rknn_query PERF_DETAIL): name, operator, shapes, and
// the cost model's estimates. Made once when a model is loaded; strings live in `pool`.
#include "npu/sim/sim_layers.h"

#include <stdio.h>

#include "npu/sim/cost/estimate_graph.h"

#define SHAPES_LENGTH 256

// Appends "(1,3,224,224)" and returns the length that the text would have; like snprintf it may
// pass SHAPES_LENGTH, which stops the caller.
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
static const char *layer_shapes(const struct graph *g, struct pool *pool, const int32_t *indices,
                                uint32_t n)
{
    char text[SHAPES_LENGTH + 1] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < n && at < SHAPES_LENGTH; i++)
        if (indices[i] >= 0)
            at = append_shape(text, at, &g->tensors[indices[i]]);
    return pool_text(pool, (struct bytes){(const uint8_t *)text, strlen(text)});
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
        l->n_tasks = n->n_tasks;
        l->input_shapes = layer_shapes(g, pool, n->inputs, n->n_inputs);
        l->output_shapes = layer_shapes(g, pool, n->outputs, n->n_outputs);
        if (!l->input_shapes || !l->output_shapes)
            return error_no_memory(e, "the layers", 0);
    }
    estimate_layers(g, chip, layers);
    *ret = layers;
    return 0;
}
