// A tensor's square error is not the outputs'. What is rounded is off by chance, and sums of many
// products lose most of that; what is cut off is off the same way each time, and mostly in the
// values that later layers (MaxPool, Softmax) look at. So what a search for the least square error
// takes from the ends may cost more behind than the finer steps bring. What it does cost is tried.
//
// From all as `normal` has it, parts are switched to mmse: all at once, else tensors and weights
// apart, then halves of those, in the order of nodes. A part that brings the outputs nearer by
// every measure, or as near, stays.
#include "quant/hybrid/quant_settle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_trial.h"

#define SAMPLES    8
#define MOST_PARTS 8 // so there are at most 1 + 1 + 2 + 4 + 8 tries

// What is switched: groups of tensors, by the edge that stands for them, then products' weights.
struct settling {
    struct rknnd_quant *q;
    struct quant_trial trial;
    struct quant_range *plain, *searched; // of each group
    uint32_t *units;                      // edges, then nodes
    uint32_t n_tensors, n;
    struct quant_nearness present;
    struct error *e;
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
static void settle_switch(struct settling *s, uint32_t from, uint32_t to, bool searched)
{
    struct rknnd_quant *q = s->q;
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

static int settle_try(struct settling *s, struct quant_nearness *ret)
{
    const rknnd_quant_samples *samples = s->trial.samples;
    const struct quant_trial_run how = {
        .n_clients = quant_clients(samples, SAMPLES), .n_samples = SAMPLES, .goal = -INFINITY};
    int r = quant_trial_run(&s->trial, s->q, &how, ret, s->e);
    s->q->summary.n_compared++;
    if (r == 0 && samples->progress && samples->progress(samples->user, samples->n))
        return error_set(s->e, STATUS_FAIL, "ended while mmse was compared with normal");
    return r;
}

// The part [from, to), one of so many.
static int settle_part(struct settling *s, uint32_t from, uint32_t to, uint32_t n_parts)
{
    struct quant_nearness near;
    settle_switch(s, from, to, true);
    int r = settle_try(s, &near);
    if (r < 0)
        return r;
    if (quant_nearness_reaches(near, s->present)) {
        s->present = near;
        return 0;
    }
    settle_switch(s, from, to, false);
    if (to - from < 2 || n_parts == MOST_PARTS)
        return 0;
    bool apart = from < s->n_tensors && s->n_tensors < to;
    uint32_t middle = apart ? s->n_tensors : from + (to - from) / 2;
    r = settle_part(s, from, middle, 2 * n_parts);
    return r < 0 ? r : settle_part(s, middle, to, 2 * n_parts);
}

static int settle_all(struct settling *s)
{
    settle_switch(s, 0, s->n, false);
    int r = settle_try(s, &s->present);
    return r < 0 ? r : settle_part(s, 0, s->n, 1);
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
            r = quant_trial_begin(&s.trial, q, samples, SAMPLES, e);
        if (r == 0 && s.n)
            r = settle_all(&s);
        quant_trial_done(&s.trial);
    }
    free(s.plain);
    free(s.searched);
    free(s.units);
    if (r < 0)
        return error_prefix(e, "comparing mmse with normal");
    q->settled.known = true;
    settle_count(q);
    return 0;
}
