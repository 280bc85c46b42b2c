// Where each tensor lives.
#include "npu/sim/places.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define ALIGNMENT 64
#define NEVER     INT32_MAX
#define ARENA_MAX ((uint64_t)1 << 32)

// From the step that writes a tensor to the last one that reads it. Inputs are written before all
// steps, outputs are read after them.
struct life {
    int32_t from, to;
};

static int note_read(const struct plan *p, struct life *lives, int32_t tensor, int32_t step,
                     struct error *e)
{
    const struct graph_tensor *t = tensor < 0 ? NULL : &p->graph->tensors[tensor];
    if (!t || t->constant)
        return 0;
    if (lives[tensor].from >= step)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s is read before anything has written it", t->name);
    lives[tensor].to = step;
    return 0;
}

static int note_step(const struct plan *p, struct life *lives, int32_t i, struct error *e)
{
    const struct graph_node *n = p->steps[i].node;
    int r = 0;
    for (uint32_t k = 0; k < n->n_inputs && r == 0; k++)
        r = note_read(p, lives, n->inputs[k], i, e);
    for (uint32_t k = 0; k < n->n_post && r == 0; k++)
        if (n->post[k].kind == POST_ADD)
            r = note_read(p, lives, n->post[k].operand, i, e);
    if (r < 0)
        return error_prefix(e, "node %s (%s)", n->name, n->type);
    for (uint32_t k = 0; k < n->n_outputs; k++) {
        int32_t tensor = n->outputs[k];
        if (tensor < 0)
            continue;
        if (lives[tensor].from != NEVER)
            return graph_refuse(n, e, "tensor %s is written twice", p->graph->tensors[tensor].name);
        lives[tensor] = (struct life){i, i};
    }
    return 0;
}

static int find_lives(const struct plan *p, struct life *lives, struct error *e)
{
    const struct graph *g = p->graph;
    int32_t end = (int32_t)p->n_steps;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        lives[i].from = NEVER;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        lives[g->inputs[i]] = (struct life){-1, -1};
    for (int32_t i = 0; i < end; i++) {
        int r = note_step(p, lives, i, e);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        int r = note_read(p, lives, (int32_t)g->outputs[i], end, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool overlap(const struct graph_tensor *a, uint64_t place_a, const struct graph_tensor *b,
                    uint64_t place_b)
{
    return place_a < place_b + b->size && place_b < place_a + a->size;
}

// A step that works in place may write exactly where its dying input lies.
static bool in_place(const struct plan *p, const struct life *old, const struct life *fresh,
                     const struct graph_tensor *a, uint64_t place_a, const struct graph_tensor *b,
                     uint64_t place_b)
{
    if (old->to != fresh->from || fresh->from < 0 || fresh->from >= (int32_t)p->n_steps)
        return false;
    return p->steps[fresh->from].op->in_place && place_a == place_b && a->type == b->type &&
           a->size == b->size && a->channels_last == b->channels_last;
}

// Whether tensor i, at its place in the file, disturbs or is disturbed by one placed before.
static bool conflicts(const struct plan *p, const struct life *lives, const uint32_t *placed,
                      uint32_t n_placed, uint32_t i)
{
    const struct graph_tensor *tensors = p->graph->tensors;
    for (uint32_t k = 0; k < n_placed; k++) {
        uint32_t j = placed[k];
        if (lives[i].from > lives[j].to || lives[j].from > lives[i].to ||
            !overlap(&tensors[i], tensors[i].place, &tensors[j], p->places[j]))
            continue;
        bool later = lives[i].from > lives[j].from;
        const struct life *old = &lives[later ? j : i], *fresh = &lives[later ? i : j];
        if (!in_place(p, old, fresh, &tensors[i], tensors[i].place, &tensors[j], p->places[j]))
            return true;
    }
    return false;
}

int places_choose(struct plan *p, struct error *e)
{
    const struct graph *g = p->graph;
    p->places = pool_alloc(&p->pool, g->n_tensors, sizeof *p->places);
    cleanup(free_p) struct life *lives = calloc((size_t)g->n_tensors + 1, sizeof *lives);
    cleanup(free_p) uint32_t *placed = calloc((size_t)g->n_tensors + 1, sizeof *placed);
    if (!p->places || !lives || !placed)
        return error_no_memory(e, "the memory plan", g->n_tensors * sizeof *lives);
    int r = find_lives(p, lives, e);
    if (r < 0)
        return r;
    p->arena_size = (g->arena_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        if (lives[i].from == NEVER)
            continue;
        if (t->place != GRAPH_NO_PLACE && !conflicts(p, lives, placed, n, i)) {
            p->places[i] = t->place;
            placed[n++] = i;
        } else {
            p->places[i] = p->arena_size;
            p->arena_size += (t->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
    }
    if (p->arena_size > ARENA_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "its tensors need %llu bytes, more than 4 GB",
                         (unsigned long long)p->arena_size);
    return 0;
}
