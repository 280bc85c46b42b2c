// Bodies are bytes of their nodes' attributes. Each is read into memory that is given back with it,
// as its weights come along: only the names stay.
#include "quant/model/quant_taken.h"

#include <string.h>

#include "base/cleanup.h"

#define MOST_DEPTH 8 // of bodies in bodies, as where models are run

struct taking {
    struct quant_taken *t;
    struct quant_pool *pool;
    struct error *e;
};

uint32_t quant_name_hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

// Where a name is, or would be put. Slots are a power of two, and never all taken.
static size_t taken_slot(const struct quant_taken *t, const char *name)
{
    size_t at = quant_name_hash(name) & (t->n_slots - 1);
    while (t->slots[at] && strcmp(t->slots[at], name) != 0)
        at = (at + 1) & (t->n_slots - 1);
    return at;
}

bool quant_taken_has(const struct quant_taken *t, const char *name)
{
    return t->n_slots && t->slots[taken_slot(t, name)];
}

static bool taken_grow(const struct taking *g)
{
    struct quant_taken wide = {.n = g->t->n, .n_slots = g->t->n_slots ? g->t->n_slots * 2 : 256};
    wide.slots = quant_pool_take(g->pool, wide.n_slots, sizeof *wide.slots);
    for (size_t i = 0; i < g->t->n_slots && wide.slots; i++)
        if (g->t->slots[i])
            wide.slots[taken_slot(&wide, g->t->slots[i])] = g->t->slots[i];
    if (wide.slots)
        *g->t = wide;
    return wide.slots != NULL;
}

// False: out of memory.
static bool taken_add(const struct taking *g, const char *name)
{
    if (!name || !*name || quant_taken_has(g->t, name))
        return true;
    if (g->t->n * 2 >= g->t->n_slots && !taken_grow(g))
        return false;
    const char *own = quant_pool_text(g->pool, "%s", name);
    if (!own)
        return false;
    g->t->slots[taken_slot(g->t, name)] = own;
    g->t->n++;
    return true;
}

static bool taken_add_list(const struct taking *g, char *const *names, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n && good; i++)
        good = taken_add(g, names[i]);
    return good;
}

static bool taken_add_values(const struct taking *g, Quant__ValueInfo *const *list, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n && good; i++)
        good = taken_add(g, list[i]->name);
    return good;
}

// All values of a body.
static bool taken_add_body(const struct taking *g, const Quant__Graph *body)
{
    bool good = taken_add_values(g, body->input, body->n_input) &&
                taken_add_values(g, body->output, body->n_output);
    for (size_t i = 0; i < body->n_initializer && good; i++)
        good = taken_add(g, body->initializer[i]->name);
    for (size_t i = 0; i < body->n_node && good; i++)
        good = taken_add_list(g, body->node[i]->input, body->node[i]->n_input) &&
               taken_add_list(g, body->node[i]->output, body->node[i]->n_output);
    return good;
}

static int taken_read(const struct taking *g, const ProtobufCBinaryData *bytes, int depth);

// Names of a graph's nodes, and what its bodies have.
static int taken_look(const struct taking *g, const Quant__Graph *graph, int depth)
{
    int r = taken_add_values(g, graph->value_info, graph->n_value_info)
                ? 0
                : error_no_memory(g->e, "names", g->t->n);
    for (size_t i = 0; i < graph->n_node && r == 0; i++) {
        const Quant__Node *n = graph->node[i];
        if (!taken_add(g, n->name))
            return error_no_memory(g->e, "names", g->t->n);
        for (size_t k = 0; k < n->n_attribute && r == 0; k++) {
            const Quant__Attribute *a = n->attribute[k];
            if (a->has_g && a->g.len)
                r = taken_read(g, &a->g, depth);
            for (size_t b = 0; b < a->n_graphs && r == 0; b++)
                r = taken_read(g, &a->graphs[b], depth);
        }
    }
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion): at most MOST_DEPTH
static int taken_read(const struct taking *g, const ProtobufCBinaryData *bytes, int depth)
{
    if (depth == MOST_DEPTH)
        return error_set(g->e, STATUS_MODEL_INVALID,
                         "it has subgraphs in subgraphs, more than %d deep", MOST_DEPTH);
    Quant__Graph *body = quant__graph__unpack(NULL, bytes->len, bytes->data);
    if (!body)
        return error_set(g->e, STATUS_MODEL_INVALID, "it is damaged: a subgraph cannot be read");
    int r = taken_add_body(g, body) ? taken_look(g, body, depth + 1)
                                    : error_no_memory(g->e, "names", g->t->n);
    quant__graph__free_unpacked(body, NULL);
    return r;
}

int quant_taken_make(struct quant_taken *t, struct quant_pool *p, const Quant__Graph *g,
                     struct error *e)
{
    *t = (struct quant_taken){0};
    return taken_look(&(struct taking){.t = t, .pool = p, .e = e}, g, 0);
}
