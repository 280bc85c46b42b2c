// The order is measured: what each unit of nodes alone does to the outputs in integers. Errors of
// units add up nearly as their squares do, so the best set of a size is near those that cost most;
// whether the goal is reached is tried. First how many it takes: 1, 2, 4, …, then between the last
// two numbers. Then each of those is tried without: errors may be opposite to each other.
#include "quant/hybrid/quant_propose.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/hybrid/quant_trial.h"
#include "quant/hybrid/quant_units.h"

#define SAMPLES  8
#define MEASURED 2 // samples that a unit's cost is of: it only decides the order

// One search. Units are known by their places in `units`, so nothing that is chosen before they are
// measured, and sorted by that, means anything afterwards.
struct proposing {
    struct rknnd_quant *q;
    struct quant_trial trial;
    const rknnd_quant_goal *goal;
    struct quant_unit *units;     // what costs most first, once measured
    uint32_t n;                   // units
    uint32_t *chosen, *tried;     // numbers of units
    struct quant_choice *choices; // room for what is tried
    uint32_t n_choices;
    uint32_t n_tries;
    struct error *e;
};

// All that is allocated; quant_propose() frees it, also after a failure.
static int propose_begin(struct proposing *p)
{
    const struct rknnd_quant *q = p->q;
    int r = quant_units_make(q, &p->units, &p->n, p->e);
    if (r < 0)
        return r;
    p->chosen = calloc((size_t)p->n + 1, sizeof *p->chosen);
    p->tried = calloc((size_t)p->n + 1, sizeof *p->tried);
    p->choices = calloc((size_t)q->plan.n_nodes + 1, sizeof *p->choices);
    return p->chosen && p->tried && p->choices ? 0 : error_no_memory(p->e, "the nodes", p->n);
}

// Plans with these units in float, or in int16 where the goal asks for that. A node is named by its
// first output: unlike names of nodes, those of tensors are there and are unique.
static int propose_set(struct proposing *p, const uint32_t *floats, uint32_t n)
{
    p->n_choices = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < p->units[floats[i]].n; k++) {
            const Quant__Node *node = p->q->model.graph->node[p->units[floats[i]].nodes[k]];
            p->choices[p->n_choices++] =
                (struct quant_choice){quant_output(node, 0), (uint8_t)p->goal->type};
        }
    return quant_floats_set(p->q, p->n_choices, p->choices, NULL, p->e);
}

// One choice, written and run on so many samples. What it chose stays set until the next one.
static int propose_try(struct proposing *p, const uint32_t *floats, uint32_t n, uint32_t samples,
                       double *ret)
{
    struct quant_nearness near = {0};
    int r = propose_set(p, floats, n);
    if (r == 0)
        r = quant_trial_run(&p->trial, samples, &near, p->e);
    if (r < 0)
        return r;
    *ret = near.least;
    p->n_tries++;
    if (p->goal->tried && p->goal->tried(p->trial.samples->user, p->n_choices, *ret))
        return error_set(p->e, STATUS_FAIL, "ended after %u tries", p->n_tries);
    return 0;
}

// ---- what each unit costs ----

// The cost of unit i: all other units but `besides` are float, so what its own 8 bits do is all
// that the outputs differ by. A tensor between it and a float unit is stored in 8 bits then, too.
static int propose_alone(struct proposing *p, uint32_t i, uint32_t besides, double *ret)
{
    uint32_t n = 0;
    double cosine;
    for (uint32_t k = 0; k < p->n; k++)
        if (k != i && k != besides)
            p->tried[n++] = k;
    int r = propose_try(p, p->tried, n, MEASURED, &cosine);
    if (r == 0)
        *ret = 1 - cosine;
    return r;
}

// A model needs a product in integers: other units are measured beside the one that costs least,
// and its own cost is taken off. That may come out below 0, where two errors are opposite: last
// then.
static int propose_measure(struct proposing *p)
{
    uint32_t best = UINT32_MAX;
    int r = 0;
    for (uint32_t i = 0; i < p->n && r == 0; i++) {
        if (!p->units[i].is_product)
            continue;
        r = propose_alone(p, i, i, &p->units[i].cost);
        if (best == UINT32_MAX || p->units[i].cost < p->units[best].cost)
            best = i;
    }
    for (uint32_t i = 0; i < p->n && r == 0; i++) {
        if (p->units[i].is_product)
            continue;
        r = propose_alone(p, i, best, &p->units[i].cost);
        p->units[i].cost -= p->units[best].cost;
    }
    if (r == 0)
        quant_units_sort(p->units, p->n);
    return r;
}

// ---- how many ----

// The least number of the costliest that reaches the goal, as far as more never do worse. Where
// they do (two errors that were opposite), the number is still one that was seen to reach it.
static int propose_count(struct proposing *p, uint32_t *ret_n, double *ret)
{
    uint32_t low = 0, high = 1, most = p->n - 1; // low does not reach it
    double plain = *ret;
    int r = 0;
    for (uint32_t i = 0; i < p->n; i++)
        p->chosen[i] = i;
    for (; r == 0; high *= 2) {
        high = high > most ? most : high;
        if (high == low)
            return error_set(
                p->e, STATUS_FAIL,
                "the goal of %g is not reached: the outputs' cosine is %.6g in 8 bits, "
                "and %.6g with all nodes but one product in floats",
                p->goal->cosine, plain, *ret);
        r = propose_try(p, p->chosen, high, p->trial.n_samples, ret);
        if (r == 0 && *ret >= p->goal->cosine)
            break;
        low = high;
    }
    while (r == 0 && high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        double cosine;
        r = propose_try(p, p->chosen, middle, p->trial.n_samples, &cosine);
        bool reached = r == 0 && cosine >= p->goal->cosine;
        *(reached ? &high : &low) = middle;
        if (reached)
            *ret = cosine;
    }
    *ret_n = high;
    return r;
}

// Leaves out what is not needed, what costs least first. Once is enough for a set none of whose
// members can be spared, again as far as more floats never do worse.
static int propose_thin(struct proposing *p, uint32_t *n, double *ret)
{
    int r = 0;
    for (uint32_t i = *n; i-- > 0 && *n > 1 && r == 0;) {
        uint32_t without = p->chosen[i];
        double cosine;
        memmove(p->chosen + i, p->chosen + i + 1, (*n - i - 1) * sizeof *p->chosen);
        r = propose_try(p, p->chosen, *n - 1, p->trial.n_samples, &cosine);
        if (r == 0 && cosine >= p->goal->cosine) {
            *ret = cosine;
            --*n;
            continue;
        }
        memmove(p->chosen + i + 1, p->chosen + i, (*n - i - 1) * sizeof *p->chosen);
        p->chosen[i] = without;
    }
    return r;
}

// The cheapest answer first: a model that is good enough in 8 bits costs one try.
static int propose_search(struct proposing *p, rknnd_quant_proposal *ret)
{
    uint32_t n = 0;
    double cosine;
    int r = propose_try(p, NULL, 0, p->trial.n_samples, &cosine);
    ret->plain_cosine = cosine;
    if (r < 0)
        return r;
    if (cosine < p->goal->cosine) {
        r = propose_measure(p);
        if (r == 0)
            r = propose_count(p, &n, &cosine);
        if (r == 0)
            r = propose_thin(p, &n, &cosine);
    }
    if (r == 0)
        r = propose_set(p, p->chosen, n);
    ret->n_tries = p->n_tries;
    ret->cosine = cosine;
    return r;
}

// The names of what is set, in the order of units.
static int propose_keep(struct proposing *p, rknnd_quant_proposal *ret)
{
    const char **names = calloc((size_t)p->n_choices + 1, sizeof *names);
    if (!names)
        return error_no_memory(p->e, "names", p->n_choices);
    for (uint32_t i = 0; i < p->n_choices; i++)
        names[i] = p->choices[i].name;
    free(p->q->proposed);
    p->q->proposed = names;
    p->q->goal = p->goal->cosine;
    p->q->cosine = ret->cosine;
    p->q->plain_cosine = ret->plain_cosine;
    ret->floats = names;
    ret->n_floats = p->n_choices;
    return 0;
}

// After a failure nothing but the options' nodes is float: what was tried last is no proposal.
int quant_propose(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                  const rknnd_quant_goal *goal, rknnd_quant_proposal *ret, struct error *e)
{
    struct proposing p = {.q = q, .goal = goal, .e = e};
    struct error ignored;
    int r = quant_noise_measure(q, e);
    if (r == 0)
        r = propose_begin(&p);
    if (r == 0)
        r = quant_trial_begin(&p.trial, q, samples, goal->n_samples ? goal->n_samples : SAMPLES, e);
    if (r == 0)
        r = propose_search(&p, ret);
    if (r == 0)
        r = propose_keep(&p, ret);
    if (r < 0)
        quant_floats_set(q, 0, NULL, NULL, &ignored);
    quant_trial_done(&p.trial);
    free(p.units);
    free(p.chosen);
    free(p.tried);
    free(p.choices);
    return r;
}
