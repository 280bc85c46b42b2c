// Nodes that lie in another order than they are to run in, as converters to float16 leave them: the
// casts that they add come last. A node needs what its graphs take from around it, too. Graphs
// inside nodes stay as they are, since a name that is made later there can be one of the graph
// around before.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/order/order_nodes.h"
#include "npu/model/onnx/onnx_lower.h"
#include "npu/model/onnx/onnx_names.h"

// What a node reads, in memory of the file's pool.
struct needs {
    struct pool *pool;
    const char **items;
    uint32_t n, room;
};

static int needs_add(struct needs *needs, const char *name, struct error *e)
{
    if (!pool_reserve(needs->pool, needs->items, needs->n, needs->room, needs->n + 1))
        return error_no_memory(e, "the model", needs->n);
    needs->items[needs->n++] = name;
    return 0;
}

// Names that a graph has by itself, wherever in it they are made.
static int sort_own(const struct onnx_file *body, struct onnx_names *own, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < body->n_inputs && r == 0; i++)
        r = onnx_names_set(own, body->inputs[i].name, 0, e);
    for (uint32_t i = 0; i < body->n_initializers && r == 0; i++)
        r = onnx_names_set(own, body->initializers[i].name, 0, e);
    for (uint32_t i = 0; i < body->n_nodes; i++)
        for (uint32_t k = 0; k < body->nodes[i].n_outputs && r == 0; k++)
            r = onnx_names_set(own, body->nodes[i].outputs[k], 0, e);
    return r;
}

static int sort_take_bodies(const struct onnx_file *f, const struct onnx_node *n,
                            const struct onnx_names *around, uint32_t depth, struct needs *needs,
                            struct error *e);

static int sort_take_body(const struct onnx_file *body, const struct onnx_names *own,
                          uint32_t depth, struct needs *needs, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < body->n_outputs && r == 0; i++)
        if (onnx_names_find(own, body->outputs[i].name) < 0)
            r = needs_add(needs, body->outputs[i].name, e);
    for (uint32_t i = 0; i < body->n_nodes && r == 0; i++) {
        const struct onnx_node *n = &body->nodes[i];
        for (uint32_t k = 0; k < n->n_inputs && r == 0; k++)
            if (n->inputs[k][0] && onnx_names_find(own, n->inputs[k]) < 0)
                r = needs_add(needs, n->inputs[k], e);
        if (r == 0)
            r = sort_take_bodies(body, n, own, depth + 1, needs, e);
    }
    return r;
}

// Names that the graphs inside a node do not make themselves. A graph that cannot be read, or lies
// too deep, is refused where it is lowered.
static int sort_take_bodies(const struct onnx_file *f, const struct onnx_node *n,
                            const struct onnx_names *around, uint32_t depth, struct needs *needs,
                            struct error *e)
{
    int r = 0;
    for (uint32_t a = 0; a < n->n_attrs && depth <= ONNX_MAX_DEPTH && r == 0; a++) {
        struct onnx_file body;
        struct onnx_names *own = NULL;
        struct error unread;
        if (!n->attrs[a].g.data || onnx_file_subgraph(f, n->attrs[a].g, &body, &unread) < 0)
            continue;
        r = onnx_names_new(&own, around, e);
        if (r == 0)
            r = sort_own(&body, own, e);
        if (r == 0)
            r = sort_take_body(&body, own, depth, needs, e);
        onnx_names_free(own);
    }
    return r;
}

// What a node with graphs inside reads, those included.
static int sort_needs(const struct onnx_file *f, const struct onnx_node *n, struct order_node *ret,
                      struct error *e)
{
    struct needs needs = {.pool = f->pool};
    int r = sort_take_bodies(f, n, NULL, 0, &needs, e);
    if (r < 0 || !needs.n)
        return r;
    for (uint32_t i = 0; i < n->n_inputs && r == 0; i++)
        r = needs_add(&needs, n->inputs[i], e);
    ret->inputs = needs.items;
    ret->n_inputs = needs.n;
    return r;
}

// Reorders the list by the places of its nodes.
static int sort_move(struct onnx_file *f, const uint32_t *order, struct error *e)
{
    struct onnx_node *sorted = pool_alloc(f->pool, f->n_nodes, sizeof *sorted);
    if (!sorted)
        return error_no_memory(e, "the model", f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        sorted[i] = f->nodes[order[i]];
    f->nodes = sorted;
    return 0;
}

int onnx_file_sort(struct onnx_file *f, struct error *e)
{
    cleanup(free_p) struct order_node *nodes = calloc((size_t)f->n_nodes + 1, sizeof *nodes);
    cleanup(free_p) uint32_t *order = calloc((size_t)f->n_nodes + 1, sizeof *order);
    bool moved;
    if (!nodes || !order)
        return error_no_memory(e, "the model", f->n_nodes);
    int r = 0;
    for (uint32_t i = 0; i < f->n_nodes && r == 0; i++) {
        nodes[i] = (struct order_node){.inputs = f->nodes[i].inputs,
                                       .outputs = f->nodes[i].outputs,
                                       .n_inputs = f->nodes[i].n_inputs,
                                       .n_outputs = f->nodes[i].n_outputs};
        r = sort_needs(f, &f->nodes[i], &nodes[i], e);
    }
    if (r == 0)
        r = order_nodes(nodes, f->n_nodes, order, &moved, e);
    return r == 0 && moved ? sort_move(f, order, e) : r;
}
