// Where each tensor lives.
#include "npu/sim/exec/memory_plan.h"

#include <stdlib.h>

#include "base/bytes.h"
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

// What has its place already, by where that begins.
struct placed {
    uint64_t begin, end;
    struct life life;
    uint32_t tensor;
};

struct placing {
    struct plan *plan;
    const struct life *lives;
    struct placed *placed;
    uint32_t n;
};

static bool live_together(struct life a, struct life b)
{
    return a.from <= b.to && b.from <= a.to;
}

// The step that reads one for the last time and makes the other; -1: there is none.
static int32_t handing_over(struct life a, struct life b)
{
    if (a.to == b.from)
        return a.from < b.from ? b.from : -1;
    return b.to == a.from && b.from < a.from ? a.from : -1;
}

// A step that works in place may write exactly where its dying input lies.
static bool may_share(const struct placing *p, uint32_t i, const struct placed *other)
{
    int32_t step = handing_over(p->lives[i], other->life);
    if (step < 0 || step >= (int32_t)p->plan->n_steps)
        return false;
    const struct graph_tensor *a = &p->plan->graph->tensors[i];
    const struct graph_tensor *b = &p->plan->graph->tensors[other->tensor];
    return p->plan->steps[step].op->in_place && a->type == b->type && a->size == b->size &&
           a->channels_last == b->channels_last;
}

// Whether tensor i disturbs or is disturbed there.
static bool conflicts(const struct placing *p, uint32_t i, uint64_t begin)
{
    uint64_t end = begin + p->plan->graph->tensors[i].size;
    for (uint32_t k = 0; k < p->n && p->placed[k].begin < end; k++) {
        const struct placed *other = &p->placed[k];
        if (other->end > begin && live_together(p->lives[i], other->life) &&
            !(other->begin == begin && may_share(p, i, other)))
            return true;
    }
    return false;
}

static void put(struct placing *p, uint32_t i, uint64_t begin)
{
    uint64_t end = begin + p->plan->graph->tensors[i].size;
    uint32_t k = p->n++;
    for (; k > 0 && p->placed[k - 1].begin > begin; k--)
        p->placed[k] = p->placed[k - 1];
    p->placed[k] = (struct placed){begin, end, p->lives[i], i};
    p->plan->offsets[i] = begin;
    if (align_up(end, ALIGNMENT) > p->plan->arena_size)
        p->plan->arena_size = align_up(end, ALIGNMENT);
}

// The lowest place that nothing else needs while tensor i lives.
static uint64_t find_gap(const struct placing *p, uint32_t i)
{
    uint64_t begin = 0, size = p->plan->graph->tensors[i].size;
    struct life life = p->lives[i];
    for (const struct placed *k = p->placed; k < p->placed + p->n && k->begin < begin + size; k++)
        if (live_together(life, k->life) && align_up(k->end, ALIGNMENT) > begin)
            begin = align_up(k->end, ALIGNMENT);
    return begin;
}

static uint64_t find_place(const struct placing *p, uint32_t i)
{
    for (uint32_t k = 0; k < p->n; k++)
        if (may_share(p, i, &p->placed[k]) && !conflicts(p, i, p->placed[k].begin))
            return p->placed[k].begin;
    return find_gap(p, i);
}

// The largest first: small ones fit into the gaps between them.
static int by_size(const void *a, const void *b, void *tensors)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct graph_tensor *t = tensors;
    if (t[i].size != t[j].size)
        return t[i].size > t[j].size ? -1 : 1;
    return i < j ? -1 : i > j;
}

// `rest` takes those that have no place in the file, or none that does.
static uint32_t take_places(struct placing *p, uint32_t *rest)
{
    const struct graph *g = p->plan->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        uint64_t place = g->tensors[i].place;
        if (p->lives[i].from == NEVER)
            continue;
        if (place != GRAPH_NO_PLACE && !conflicts(p, i, place))
            put(p, i, place);
        else
            rest[n++] = i;
    }
    return n;
}

int memory_plan_make(struct plan *p, struct error *e)
{
    const struct graph *g = p->graph;
    size_t room = (size_t)g->n_tensors + 1;
    p->offsets = pool_alloc(&p->pool, g->n_tensors, sizeof *p->offsets);
    cleanup(free_p) struct life *lives = calloc(room, sizeof *lives);
    cleanup(free_p) struct placed *placed = calloc(room, sizeof *placed);
    cleanup(free_p) uint32_t *rest = calloc(room, sizeof *rest);
    if (!p->offsets || !lives || !placed || !rest)
        return error_no_memory(e, "the memory plan", room * sizeof *placed);
    int r = find_lives(p, lives, e);
    if (r < 0)
        return r;
    struct placing placing = {.plan = p, .lives = lives, .placed = placed};
    p->arena_size = align_up(g->arena_size, ALIGNMENT);
    uint32_t n = take_places(&placing, rest);
    qsort_r(rest, n, sizeof *rest, by_size, g->tensors);
    for (uint32_t i = 0; i < n; i++)
        put(&placing, rest[i], find_place(&placing, rest[i]));
    if (p->arena_size > ARENA_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "its tensors need %llu bytes, more than 4 GB",
                         (unsigned long long)p->arena_size);
    return 0;
}

int memory_plan_visit(const struct plan *p,
                      void (*visit)(void *user, uint32_t tensor, int32_t from, int32_t to),
                      void *user, struct error *e)
{
    uint32_t n = p->graph->n_tensors;
    cleanup(free_p) struct life *lives = calloc((size_t)n + 1, sizeof *lives);
    if (!lives)
        return error_no_memory(e, "the memory plan", n * sizeof *lives);
    int r = find_lives(p, lives, e);
    for (uint32_t i = 0; i < n && r == 0; i++)
        if (lives[i].from != NEVER)
            visit(user, i, lives[i].from, lives[i].to);
    return r;
}
