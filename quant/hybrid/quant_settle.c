// A tensor's square error is not the outputs'. What is rounded is off by chance, and sums of many
// products lose most of that; what is cut off is off the same way each time, and mostly in the
// values that later layers (MaxPool, Softmax) look at. So what a search for the least square error
// takes from the ends may cost more behind than the finer steps bring. What it does cost is tried.
//
// From all as `normal` has it, parts are switched to mmse: all at once, else tensors and weights
// apart, then halves of those, in the order of nodes. A part that brings the outputs nearer by
// every measure, or as near, stays.
//
// Two models are tried side by side, each by all clients, as one alone waits often: the first two,
// and both halves of what was worse. The second half's try counts only if of the first one nothing
// stayed, else it is made again: so what comes out, and how many tries are told, is the same as
// with one after the other.
#include "quant/hybrid/quant_settle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_server.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_trial.h"

#define SAMPLES    256 // that are compared at most
#define MOST_PARTS 8   // so there are at most 1 + 1 + 2 + 4 + 8 tries

// What is switched: groups of tensors, by the edge that stands for them, then products' weights.
struct settling {
    struct rknnd_quant *q;
    struct quant_trial trial;
    struct quant_range *plain, *searched; // of each group
    uint32_t *units;                      // edges, then nodes
    uint32_t n_tensors, n;
    struct quant_nearness present;
    uint32_t n_stayed; // parts that were switched to mmse for good
    uint32_t n_clients;
    struct quant_caller caller;
    struct error *e;
};

// One model that is tried: as it is now, but for the units from `from` to `to` - 1 by mmse.
struct settle_try {
    struct settling *s;
    uint32_t from, to;
    double goal; // a try may end once a sample's cosine is below
    struct quant_nearness near;
};

void quant_settled_done(struct quant_settled *s)
{
    free(s->tensors);
    free(s->weights);
    *s = (struct quant_settled){0};
}

// ---- what there is to switch ----

static void settle_widen(struct quant_range *r, const struct observer *o)
{
    if (!o->bins || !(o->min <= o->max))
        return;
    r->low = fminf(r->low, o->min);
    r->high = fmaxf(r->high, o->max);
}

// Tensors whose two ranges are the same are left out.
static void settle_find_tensors(struct settling *s)
{
    const struct quant_place *places = s->q->plan.places;
    for (uint32_t i = 0; i < s->q->plan.n_edges; i++)
        if (places[i].quantized)
            settle_widen(&s->plain[places[i].group], &s->q->seen[i]);
    quant_floats_fit_clips(s->q, &s->q->plan, s->plain);
    for (uint32_t i = 0; i < s->q->plan.n_edges; i++) {
        struct quant_range a = s->plain[i], b = s->searched[i];
        bool stands = places[i].group == i && places[i].bits == 8;
        if (stands && (a.low != b.low || a.high != b.high))
            s->units[s->n++] = i;
    }
    s->n_tensors = s->n;
}

static void settle_find_weights(struct settling *s)
{
    const struct quant_plan *p = &s->q->plan;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->kinds[i] == QUANT_NODE_PRODUCT && p->bits[i] == 8)
            s->units[s->n++] = i;
}

static int settle_begin(struct settling *s)
{
    struct rknnd_quant *q = s->q;
    size_t n = (size_t)q->index.n + 1, n_nodes = (size_t)q->plan.n_nodes + 1;
    s->plain = calloc(n, sizeof *s->plain);
    s->searched = calloc(n, sizeof *s->searched);
    s->units = calloc(n + n_nodes, sizeof *s->units);
    q->settled.tensors = calloc(n, sizeof *q->settled.tensors);
    q->settled.weights = calloc(n_nodes, sizeof *q->settled.weights);
    if (!s->plain || !s->searched || !s->units || !q->settled.tensors || !q->settled.weights)
        return error_no_memory(s->e, "ranges", n);
    memcpy(s->searched, q->base.ranges, (n - 1) * sizeof *s->searched);
    settle_find_tensors(s);
    settle_find_weights(s);
    return 0;
}

// ---- tries ----

// No other choices of layers are set yet, so groups of both layouts are the same.
static void settle_switch(const struct settling *s, struct rknnd_quant *q, uint32_t from,
                          uint32_t to, bool searched)
{
    for (uint32_t i = from; i < to; i++) {
        uint32_t unit = s->units[i];
        if (i >= s->n_tensors) {
            q->settled.weights[unit] = !searched;
            continue;
        }
        struct quant_range r = searched ? s->searched[unit] : s->plain[unit];
        q->settled.tensors[unit] = !searched;
        q->base.ranges[unit] = q->layout.ranges[unit] = r;
        q->base.forms[unit] = q->layout.forms[unit] =
            quant_form_of_range(r, quant_store_of(q, q->plan.places[unit].bits));
    }
}

static void *settle_copy(const void *from, size_t size)
{
    void *own = malloc(size + 1);
    if (own && size)
        memcpy(own, from, size);
    return own;
}

// What a try switches is its own; all else it has in common with `q`.
static bool settle_fork(const struct rknnd_quant *q, struct rknnd_quant *ret)
{
    size_t n = (size_t)q->index.n, n_nodes = q->plan.n_nodes;
    *ret = *q;
    ret->base = (struct quant_layout){settle_copy(q->base.ranges, n * sizeof *q->base.ranges),
                                      settle_copy(q->base.forms, n * sizeof *q->base.forms)};
    ret->layout = (struct quant_layout){settle_copy(q->layout.ranges, n * sizeof *q->layout.ranges),
                                        settle_copy(q->layout.forms, n * sizeof *q->layout.forms)};
    ret->settled.tensors = settle_copy(q->settled.tensors, n * sizeof *q->settled.tensors);
    ret->settled.weights = settle_copy(q->settled.weights, n_nodes * sizeof *q->settled.weights);
    return ret->base.ranges && ret->base.forms && ret->layout.ranges && ret->layout.forms &&
           ret->settled.tensors && ret->settled.weights;
}

static void settle_join(struct rknnd_quant *fork)
{
    free(fork->base.ranges);
    free(fork->base.forms);
    free(fork->layout.ranges);
    free(fork->layout.forms);
    quant_settled_done(&fork->settled);
}

static int settle_run(struct settle_try *t, uint32_t n_clients, struct error *e)
{
    const struct settling *s = t->s;
    const struct quant_trial_run how = {
        .n_clients = n_clients, .n_samples = s->trial.n_samples, .goal = t->goal};
    struct rknnd_quant own;
    int r = settle_fork(s->q, &own) ? 0 : error_no_memory(e, "ranges", s->q->index.n);
    own.n_clients = n_clients;
    if (r == 0) {
        settle_switch(s, &own, t->from, t->to, true);
        r = quant_trial_run(&s->trial, &own, &how, &t->near, e);
    }
    settle_join(&own);
    return r;
}

// On a thread that knows nothing of the calling one.
static int settle_part_of_two(void *user, uint32_t i, struct error *e)
{
    struct settle_try *t = (struct settle_try *)user + i;
    const struct settling *s = t->s;
    int r = quant_caller_act(&s->caller, e);
    return r < 0 ? r : settle_run(t, s->n_clients, e);
}

static int settle_two(struct settling *s, struct settle_try *tries)
{
    return quant_parallel(2, 2, settle_part_of_two, tries, s->e);
}

static int settle_tell(const struct settling *s)
{
    const rknnd_quant_samples *samples = s->trial.samples;
    s->q->summary.n_compared++;
    if (samples->progress && samples->progress(samples->user, samples->n))
        return error_set(s->e, STATUS_FAIL, "ended while mmse was compared with normal");
    return 0;
}

static bool settle_stays(struct settling *s, const struct settle_try *t)
{
    if (!quant_nearness_reaches(t->near, s->present))
        return false;
    settle_switch(s, s->q, t->from, t->to, true);
    s->present = t->near;
    s->n_stayed++;
    return true;
}

static struct settle_try settle_try_of(struct settling *s, uint32_t from, uint32_t to)
{
    return (struct settle_try){.s = s, .from = from, .to = to, .goal = s->present.least};
}

// One of so many parts. `tried`: nothing has changed since.
static int settle_part(struct settling *s, struct settle_try *t, bool tried, uint32_t n_parts)
{
    uint32_t from = t->from, to = t->to;
    t->goal = s->present.least;
    int r = tried ? 0 : settle_run(t, s->n_clients, s->e);
    if (r == 0)
        r = settle_tell(s);
    if (r < 0 || settle_stays(s, t) || to - from < 2 || n_parts == MOST_PARTS)
        return r;
    bool both = s->n_clients > 1;
    bool apart = from < s->n_tensors && to > s->n_tensors;
    uint32_t middle = apart ? s->n_tensors : from + (to - from) / 2, before = s->n_stayed;
    struct settle_try halves[] = {settle_try_of(s, from, middle), settle_try_of(s, middle, to)};
    r = both ? settle_two(s, halves) : 0;
    if (r == 0)
        r = settle_part(s, &halves[0], both, 2 * n_parts);
    return r < 0 ? r : settle_part(s, &halves[1], both && s->n_stayed == before, 2 * n_parts);
}

static int settle_all(struct settling *s)
{
    s->present.least = -INFINITY;
    struct settle_try first[] = {settle_try_of(s, 0, 0), settle_try_of(s, 0, s->n)};
    bool both = s->n_clients > 1;
    settle_switch(s, s->q, 0, s->n, false);
    int r = both ? settle_two(s, first) : settle_run(&first[0], 1, s->e);
    s->present = first[0].near;
    if (r == 0)
        r = settle_tell(s);
    return r < 0 ? r : settle_part(s, &first[1], both, 1);
}

static int settle_begin_tries(struct settling *s, const rknnd_quant_samples *samples)
{
    s->n_clients = quant_clients(samples, SAMPLES);
    int r = quant_caller_begin(&s->caller, s->e);
    return r < 0 ? r : quant_trial_begin(&s->trial, s->q, samples, SAMPLES, s->e);
}

static void settle_count(struct rknnd_quant *q)
{
    q->summary.n_normal_tensors = q->summary.n_normal_weights = 0;
    for (uint32_t i = 0; i < q->plan.n_edges; i++)
        q->summary.n_normal_tensors +=
            q->plan.places[i].quantized && q->settled.tensors[q->plan.places[i].group];
    for (uint32_t i = 0; i < q->plan.n_nodes; i++)
        q->summary.n_normal_weights += q->settled.weights[i];
}

int quant_settle(struct rknnd_quant *q, const rknnd_quant_samples *samples, struct error *e)
{
    struct settling s = {.q = q, .e = e};
    int r = 0;
    q->summary.n_compared = 0;
    if (!q->settled.known) {
        r = settle_begin(&s);
        if (r == 0 && s.n)
            r = settle_begin_tries(&s, samples);
        quant_stage(samples, "mmse beside normal");
        if (r == 0 && s.n)
            r = settle_all(&s);
        quant_trial_done(&s.trial);
    }
    free(s.plain);
    free(s.searched);
    free(s.units);
    quant_caller_done(&s.caller);
    if (r < 0)
        return error_prefix(e, "comparing mmse with normal");
    q->settled.known = true;
    settle_count(q);
    return 0;
}
