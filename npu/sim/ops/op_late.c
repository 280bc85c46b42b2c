// A node of which a run decides what it does (graph_late): its reader makes a graph for the values
// of the operands that decide, which is planned and run here as a model's own.
//
// Graphs are kept by these values, so that a run with values that were there before makes none. A
// step is shared by all contexts: the lock guards the list, and a graph runs in memory that one run
// has for itself, which is kept for the next.
//
// Tested by test_onnx_against and test_onnx_nodes.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "npu/sim/exec/copy.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"

#define LATE_KEPT 8 // graphs of one node

struct late_memory {
    struct late_memory *next;
    struct run run;
};

// A graph for some values; `values`: those of the operands that decide, one behind the other.
struct late_graph {
    struct late_graph *next;
    uint8_t *values;
    struct graph graph;
    struct plan plan;
    uint32_t n_users;
    struct late_memory *idle;
};

struct late_step {
    pthread_mutex_t lock;
    struct late_graph *graphs; // the last one used is the first
    size_t n_values;           // bytes
};

static bool late_decides(const struct step *s, uint32_t i)
{
    return i < 32 && s->node->late.decides >> i & 1;
}

static void late_graph_free(struct late_graph *l)
{
    while (l && l->idle) {
        struct late_memory *m = l->idle;
        l->idle = m->next;
        run_done(&m->run);
        free(m);
    }
    if (!l)
        return;
    if (l->plan.graph)
        plan_done(&l->plan);
    graph_done(&l->graph);
    free(l->values);
    free(l);
}

CLEANUP_DEFINE(struct late_graph, late_graph_free)

static int late_prepare(struct step *s, struct error *e)
{
    struct late_step *p = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        const struct graph_tensor *t = step_input(s, i);
        if (t && late_decides(s, i))
            p->n_values += t->size;
    }
    pthread_mutex_init(&p->lock, NULL);
    s->state = p;
    return 0;
}

static void late_done(struct step *s)
{
    struct late_step *p = s->state;
    while (p->graphs) {
        struct late_graph *next = p->graphs->next;
        late_graph_free(p->graphs);
        p->graphs = next;
    }
    pthread_mutex_destroy(&p->lock);
}

static struct graph_tensor late_plain(const struct graph_tensor *t)
{
    struct graph_tensor plain = *t;
    plain.channels_last = false;
    return plain;
}

static void late_copy(const struct graph_tensor *to, void *dst, const struct graph_tensor *from,
                      const void *src)
{
    struct copy c;
    copy_init_whole(&c, to, from);
    copy_run(&c, dst, src);
}

// The values as they are now: others may write to a run's memory.
static uint8_t *late_values(const struct step *s, const struct run *r)
{
    const struct late_step *p = s->state;
    uint8_t *values = malloc(p->n_values + 1), *at = values;
    for (uint32_t i = 0; values && i < s->node->n_inputs; i++) {
        const struct graph_tensor *t = step_input(s, i);
        if (!t || !late_decides(s, i))
            continue;
        struct graph_tensor plain = late_plain(t);
        late_copy(&plain, at, t, run_input(s, r, i));
        at += t->size;
    }
    return values;
}

static int late_make(const struct step *s, uint8_t **values, struct late_graph **ret,
                     struct error *e)
{
    cleanup(late_graph_free_p) struct late_graph *l = calloc(1, sizeof *l);
    const void *each[32] = {NULL};
    if (!l)
        return error_no_memory(e, "a graph", sizeof *l);
    const uint8_t *at = *values;
    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        if (!step_input(s, i) || !late_decides(s, i))
            continue;
        each[i] = at;
        at += step_input(s, i)->size;
    }
    int r = s->node->late.make(s->plan->graph, s->node, each, &l->graph, e);
    if (r == 0)
        r = plan_init(&l->plan, &l->graph, e);
    if (r < 0)
        return r;
    l->values = *values;
    *values = NULL;
    *ret = steal_ptr(l);
    return 0;
}

// Forgets the graph that was not used for the longest time, if nobody uses it.
static void late_forget(struct late_step *p)
{
    struct late_graph **last = NULL;
    uint32_t n = 0;
    for (struct late_graph **at = &p->graphs; *at; at = &(*at)->next, n++)
        last = (*at)->n_users ? last : at;
    if (n <= LATE_KEPT || !last)
        return;
    struct late_graph *old = *last;
    *last = old->next;
    late_graph_free(old);
}

// The graph for these values, which comes first from now on. With the lock; *values is taken over
// if it becomes the graph's.
static int late_find(const struct step *s, uint8_t **values, struct late_graph **ret,
                     struct error *e)
{
    struct late_step *p = s->state;
    struct late_graph **at = &p->graphs, *l;
    while (*at && memcmp((*at)->values, *values, p->n_values) != 0)
        at = &(*at)->next;
    l = *at;
    if (l)
        *at = l->next;
    int r = l ? 0 : late_make(s, values, &l, e);
    if (r < 0)
        return r;
    l->next = p->graphs;
    p->graphs = l;
    l->n_users++;
    late_forget(p);
    *ret = l;
    return 0;
}

// Memory to run it in, with the lock. NULL: there is none.
static struct late_memory *late_memory_take(struct late_graph *l, struct error *e)
{
    struct late_memory *m = l->idle;
    if (m) {
        l->idle = m->next;
        return m;
    }
    m = calloc(1, sizeof *m);
    if (m && run_init(&m->run, &l->plan, e) == 0)
        return m;
    free(m);
    error_no_memory(e, "a context", l->plan.arena_size);
    return NULL;
}

static int late_run_graph(const struct step *s, struct run *outer, struct late_graph *l,
                          struct run *inner, struct error *e)
{
    const struct graph *g = &l->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        const struct graph_tensor *from = step_input(s, i);
        if (!from || late_decides(s, i) || from->constant)
            continue;
        uint32_t to = g->inputs[n++];
        late_copy(&g->tensors[to], run_tensor(inner, to), from, run_input(s, outer, i));
    }
    inner->stop = outer->stop;
    int r = run_steps(inner, e);
    for (uint32_t i = 0, k = 0; i < s->node->n_outputs && r == 0; i++) {
        const struct graph_tensor *to = step_output(s, i);
        if (!to)
            continue;
        uint32_t from = g->outputs[k++];
        late_copy(to, run_output(s, outer, i), &g->tensors[from], run_tensor(inner, from));
    }
    return r;
}

static int late_run(const struct step *s, struct run *r, struct error *e)
{
    struct late_step *p = s->state;
    struct late_graph *l = NULL;
    struct late_memory *m = NULL;
    cleanup(free_p) uint8_t *values = late_values(s, r);
    if (!values)
        return error_no_memory(e, "operands", p->n_values);
    pthread_mutex_lock(&p->lock);
    int status = late_find(s, &values, &l, e);
    m = status == 0 ? late_memory_take(l, e) : NULL;
    if (l && !m)
        l->n_users--;
    pthread_mutex_unlock(&p->lock);
    if (status == STATUS_MODEL_INVALID) // the operands are to blame, which the run has brought
        return error_recode(e, STATUS_FAIL);
    if (!l || !m)
        return status < 0 ? status : STATUS_MALLOC_FAIL;
    status = late_run_graph(s, r, l, &m->run, e);
    pthread_mutex_lock(&p->lock);
    m->next = l->idle;
    l->idle = m;
    l->n_users--;
    pthread_mutex_unlock(&p->lock);
    return status;
}

const struct op op_late = {
    .prepare = late_prepare, .run = late_run, .done = late_done, .on_constant = true};
