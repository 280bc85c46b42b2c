// Programs name a part of a net by where it begins and ends (custom_hybrid of RKNN-Toolkit2), not
// by all of its layers.
//
// The part of a graph between two tensors: what the first one leads to, and the second one comes
// from.
#include <stdlib.h>

#include "base/cleanup.h"
#include "quant/quant.h"

enum { FROM = 1, TO = 2 };

// A tensor of a node, by its place among inputs or outputs.
typedef const char *between_tensor(const Quant__Node *n, size_t i);

// Takes a mark from any of a node's tensors on one side to all of those on the other. `marks`: of
// edges.
static void between_pass(const struct rknnd_quant *q, const Quant__Node *n, uint8_t mark,
                         uint8_t *marks, uint8_t *node)
{
    bool down = mark == FROM;
    between_tensor *before = down ? quant_input : quant_output;
    between_tensor *behind = down ? quant_output : quant_input;
    for (size_t i = 0; i < (down ? n->n_input : n->n_output); i++) {
        const struct quant_edge *edge = quant_index_find(&q->index, before(n, i));
        *node |= edge ? marks[edge - q->index.edges] & mark : 0;
    }
    for (size_t i = 0; i < (down ? n->n_output : n->n_input); i++) {
        const struct quant_edge *edge = quant_index_find(&q->index, behind(n, i));
        if (edge)
            marks[edge - q->index.edges] |= *node & mark;
    }
}

// Nodes are in order, so one walk in each direction is enough.
static void between_mark(const struct rknnd_quant *q, uint8_t *marks, uint8_t *nodes)
{
    const Quant__Graph *g = q->model.graph;
    for (size_t k = 0; k < g->n_node; k++)
        between_pass(q, g->node[k], FROM, marks, &nodes[k]);
    for (size_t k = g->n_node; k-- > 0;)
        between_pass(q, g->node[k], TO, marks, &nodes[k]);
}

// What was joined with another node is its output: the part may be larger by that node.
static const struct quant_edge *between_tensor_of(const struct rknnd_quant *q, const char *name)
{
    return quant_index_find_named(&q->index, quant_model_present_name(&q->model, name));
}

static int between_find(struct rknnd_quant *q, const char *from, const char *to, uint32_t *n,
                        struct error *e)
{
    const Quant__Graph *g = q->model.graph;
    const struct quant_edge *first = between_tensor_of(q, from);
    const struct quant_edge *last = between_tensor_of(q, to);
    cleanup(free_p) uint8_t *marks = calloc(1, (size_t)q->index.n + 1);
    cleanup(free_p) uint8_t *nodes = calloc(1, g->n_node + 1);
    cleanup(free_p) const char **names = calloc(g->n_node + 1, sizeof *names);
    if (!first || !last)
        return error_set(
            e, STATUS_PARAM_INVALID,
            "the model has no tensor \"%s\": it is misspelt, or of a node that is left out "
            "(an Identity, a constant)",
            first ? to : from);
    if (!marks || !nodes || !names)
        return error_no_memory(e, "the graph", g->n_node);
    marks[first - q->index.edges] |= FROM;
    marks[last - q->index.edges] |= TO;
    between_mark(q, marks, nodes);
    *n = 0;
    for (size_t k = 0; k < g->n_node; k++)
        if (nodes[k] == (FROM | TO))
            names[(*n)++] = quant_output(g->node[k], 0);
    if (!*n)
        return error_set(
            e, STATUS_PARAM_INVALID,
            "no way leads from tensor \"%s\" to \"%s\": give an input and an output of a "
            "part of the model",
            from, to);
    free(q->between);
    q->between = steal_ptr(names);
    return 0;
}

// The list of the call before is gone once this one has succeeded.
QUANT_EXPORT int rknnd_quant_find_between(rknnd_quant *quant, const char *from, const char *to,
                                          uint32_t *n, const char *const **names)
{
    struct error e = {0};
    if (!quant || !from || !to || !n || !names)
        return quant_keep(error_set(&e, STATUS_PARAM_INVALID, "no model, or no names"), &e);
    int r = between_find(quant, from, to, n, &e);
    if (r == 0)
        *names = quant->between;
    return quant_keep(r, &e);
}
