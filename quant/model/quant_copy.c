// A copy shares all bytes with its original; what a rewrite changes in place is its own: nodes with
// the names that they read and give, and lists. Constants are copied as messages, not as elements.
#include <string.h>

#include "quant/model/quant_model.h"

// `n` pointers of a list, as the pool's own.
static void *quant_copy_list(struct quant_pool *p, const void *items, size_t n)
{
    void **own = quant_pool_take(p, n, sizeof *own);
    if (own && n)
        memcpy(own, items, n * sizeof *own);
    return own;
}

static void *quant_copy_bytes(struct quant_pool *p, const void *from, size_t size)
{
    void *own = quant_pool_take(p, 1, size);
    if (own)
        memcpy(own, from, size);
    return own;
}

static bool quant_copy_nodes(struct quant_pool *p, Quant__Graph *g)
{
    g->node = quant_copy_list(p, g->node, g->n_node);
    for (size_t i = 0; i < g->n_node && g->node; i++) {
        Quant__Node *n = quant_copy_bytes(p, g->node[i], sizeof *n);
        if (!n)
            return false;
        n->input = quant_copy_list(p, n->input, n->n_input);
        n->output = quant_copy_list(p, n->output, n->n_output);
        n->attribute = quant_copy_list(p, n->attribute, n->n_attribute);
        if (!n->input || !n->output || !n->attribute)
            return false;
        g->node[i] = n;
    }
    return g->node != NULL;
}

static bool quant_copy_constants(struct quant_pool *p, Quant__Graph *g)
{
    g->initializer = quant_copy_list(p, g->initializer, g->n_initializer);
    for (size_t i = 0; i < g->n_initializer && g->initializer; i++)
        if (!(g->initializer[i] = quant_copy_bytes(p, g->initializer[i], sizeof(Quant__Tensor))))
            return false;
    return g->initializer != NULL;
}

int quant_model_copy(struct quant_model *copy, const struct quant_model *m, struct error *e)
{
    *copy = (struct quant_model){.has_subgraphs = m->has_subgraphs, .taken = m->taken};
    struct quant_pool *p = &copy->pool;
    copy->proto = quant_copy_bytes(p, m->proto, sizeof *m->proto);
    Quant__Graph *g = copy->graph = quant_copy_bytes(p, m->graph, sizeof *m->graph);
    if (!copy->proto || !g || !quant_copy_nodes(p, g) || !quant_copy_constants(p, g) ||
        !(g->input = quant_copy_list(p, g->input, g->n_input)) ||
        !(g->output = quant_copy_list(p, g->output, g->n_output)))
        return error_no_memory(e, "the model", m->graph->n_node);
    copy->proto->graph = g;
    return 0;
}
