// A hash table says which node makes a name. Then the list is gone through: before a node is taken,
// those that it needs are, which is a search in depth with a stack of its own, since a graph may be
// one chain of all its nodes.
#include "base/order/order_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define NOBODY UINT32_MAX

struct making {
    const char *name;
    uint32_t node;
};

// A node whose needs are looked at, and the next of its inputs.
struct visit {
    uint32_t node, input;
};

struct ordering {
    const struct order_node *nodes;
    struct making *slots; // a power of two, at least half of them free
    size_t n_slots;
    bool *seen; // by node: taken, or on the stack
    struct visit *stack;
};

static struct making *ordering_slot(const struct ordering *o, const char *name)
{
    uint32_t h = 2166136261u;
    for (const char *c = name; *c; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    size_t at = h & (o->n_slots - 1);
    while (o->slots[at].name && strcmp(o->slots[at].name, name) != 0)
        at = (at + 1) & (o->n_slots - 1);
    return &o->slots[at];
}

static uint32_t ordering_maker(const struct ordering *o, const char *name)
{
    const struct making *m = name && *name ? ordering_slot(o, name) : NULL;
    return m && m->name ? m->node : NOBODY;
}

static int ordering_begin(struct ordering *o, uint32_t n, struct error *e)
{
    size_t names = 0;
    for (uint32_t i = 0; i < n; i++)
        names += o->nodes[i].n_outputs;
    for (o->n_slots = 16; o->n_slots < 2 * names; o->n_slots *= 2)
        ;
    if (!(o->slots = calloc(o->n_slots, sizeof *o->slots)))
        return error_no_memory(e, "the graph", names);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < o->nodes[i].n_outputs; k++) {
            const char *name = o->nodes[i].outputs[k];
            struct making *m = name && *name ? ordering_slot(o, name) : NULL;
            if (m && !m->name)
                *m = (struct making){name, i};
        }
    return 0;
}

static bool ordering_is_good(const struct ordering *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < o->nodes[i].n_inputs; k++) {
            uint32_t maker = ordering_maker(o, o->nodes[i].inputs[k]);
            if (maker != NOBODY && maker >= i)
                return false;
        }
    return true;
}

// A node behind all that it needs; *at: how many are in `order`.
static void ordering_take(const struct ordering *o, uint32_t node, uint32_t *order, uint32_t *at)
{
    uint32_t depth = 0;
    o->stack[depth++] = (struct visit){.node = node};
    o->seen[node] = true;
    while (depth) {
        struct visit *v = &o->stack[depth - 1];
        const struct order_node *n = &o->nodes[v->node];
        if (v->input == n->n_inputs) {
            order[(*at)++] = v->node;
            depth--;
            continue;
        }
        uint32_t maker = ordering_maker(o, n->inputs[v->input++]);
        if (maker == NOBODY || o->seen[maker])
            continue;
        o->seen[maker] = true;
        o->stack[depth++] = (struct visit){.node = maker};
    }
}

static void ordering_done(struct ordering *o)
{
    free(o->slots);
    free(o->seen);
    free(o->stack);
}

int order_nodes(const struct order_node *nodes, uint32_t n, uint32_t *order, bool *ret_moved,
                struct error *e)
{
    cleanup(ordering_done) struct ordering o = {.nodes = nodes};
    int r = ordering_begin(&o, n, e);
    *ret_moved = false;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    if (r < 0 || ordering_is_good(&o, n))
        return r;
    o.seen = calloc(n, sizeof *o.seen);
    o.stack = calloc(n, sizeof *o.stack);
    if (!o.seen || !o.stack)
        return error_no_memory(e, "the graph", n);
    for (uint32_t i = 0, at = 0; i < n; i++)
        if (!o.seen[i])
            ordering_take(&o, i, order, &at);
    for (uint32_t i = 0; i < n; i++)
        *ret_moved = *ret_moved || order[i] != i;
    return 0;
}
