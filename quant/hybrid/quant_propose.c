// The order is measured: what each unit of nodes alone does to the outputs in integers. Errors of
// units add up nearly as their squares do, so the best set of a size is near those that cost most;
// whether the goal is reached is tried. First how many it takes: 1, 2, 4, …, then between the last
// two numbers. Then each of those is tried without: errors may be opposite to each other.
#include "quant/hybrid/quant_propose.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_server.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/hybrid/quant_trial.h"
#include "quant/hybrid/quant_units.h"
#include "quant/quant_parallel.h"

#define SAMPLES  8
#define MEASURED 2 // samples that a unit's cost is of: it only decides the order

// A choice of units that are float, or what else the goal asks for.
struct propose_try {
    uint32_t *floats; // numbers of units
    uint32_t n;
    struct quant_trial_run how;
    double cosine;
};

// One search. Units are known by their places in `units`, so nothing that is chosen before they are
// measured, and sorted by that, means anything afterwards.
struct proposing {
    struct rknnd_quant *q;
    struct quant_trial trial;
    const rknnd_quant_goal *goal;
    struct quant_unit *units; // what costs most first, once measured
    uint32_t n;               // units
    uint32_t *chosen;         // numbers of units
    uint32_t n_chosen;        // nodes of what is set, in `choices`
    struct quant_choice *choices;
    struct propose_try *tries; // that go on at the same time
    uint32_t n_threads;        // how many these are at most
    struct quant_caller caller;
    uint32_t n_tries;
    pthread_mutex_t lock; // of n_tries, and calls of tried()
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
    p->choices = calloc((size_t)q->plan.n_nodes + 1, sizeof *p->choices);
    p->tries = calloc((size_t)p->n_threads + 1, sizeof *p->tries);
    bool good = p->chosen && p->choices && p->tries;
    for (uint32_t i = 0; good && i <= p->n_threads; i++) {
        p->tries[i].floats = calloc((size_t)p->n + 1, sizeof *p->tries[i].floats);
        good = p->tries[i].floats != NULL;
    }
    return good ? quant_caller_begin(&p->caller, p->e) : error_no_memory(p->e, "the nodes", p->n);
}

static void propose_end(struct proposing *p)
{
    quant_trial_done(&p->trial);
    for (uint32_t i = 0; p->tries && i <= p->n_threads; i++)
        free(p->tries[i].floats);
    free(p->tries);
    free(p->units);
    free(p->chosen);
    free(p->choices);
    quant_caller_done(&p->caller);
    pthread_mutex_destroy(&p->lock);
}

// Plans `q` with these units in float, or in int16 where the goal asks for that. A node is named by
// its first output: unlike names of nodes, those of tensors are there and are unique. *ret_n: how
// many nodes these are.
static int propose_set(const struct proposing *p, struct rknnd_quant *q, const uint32_t *floats,
                       uint32_t n, struct quant_choice *choices, uint32_t *ret_n, struct error *e)
{
    *ret_n = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < p->units[floats[i]].n; k++) {
            const Quant__Node *node = q->model.graph->node[p->units[floats[i]].nodes[k]];
            choices[(*ret_n)++] =
                (struct quant_choice){quant_output(node, 0), (uint8_t)p->goal->type};
        }
    return quant_floats_set(q, *ret_n, choices, NULL, e);
}

// ---- tries ----

static int propose_tell(struct proposing *p, uint32_t n_floats, double cosine, struct error *e)
{
    pthread_mutex_lock(&p->lock);
    uint32_t n = ++p->n_tries;
    int ended = p->goal->tried ? p->goal->tried(p->trial.samples->user, n_floats, cosine) : 0;
    pthread_mutex_unlock(&p->lock);
    return ended ? error_set(e, STATUS_FAIL, "ended after %u tries", n) : 0;
}

// One choice, written and run, on whichever thread.
static int propose_try_one(struct proposing *p, struct propose_try *t, struct error *e)
{
    struct rknnd_quant own = quant_floats_fork(p->q);
    struct quant_nearness near = {0};
    uint32_t n_choices = 0;
    cleanup(free_p) struct quant_choice *choices =
        calloc((size_t)own.plan.n_nodes + 1, sizeof *choices);
    int r = choices ? 0 : error_no_memory(e, "the nodes", own.plan.n_nodes);
    if (r == 0)
        r = propose_set(p, &own, t->floats, t->n, choices, &n_choices, e);
    if (r == 0)
        r = quant_trial_run(&p->trial, &own, &t->how, &near, e);
    quant_floats_join(&own);
    t->cosine = near.least;
    return r < 0 ? r : propose_tell(p, n_choices, near.least, e);
}

// On a thread that knows nothing of the calling one.
static int propose_try_part(void *user, uint32_t i, struct error *e)
{
    struct proposing *p = user;
    int r = quant_caller_act(&p->caller, e);
    return r < 0 ? r : propose_try_one(p, &p->tries[i], e);
}

// The first n of p->tries, each by a client of its own, or by all of them where there is one.
static int propose_try_all(struct proposing *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p->tries[i].how.n_clients = n == 1 ? p->n_threads : 1;
    return quant_parallel(n, n, propose_try_part, p, p->e);
}

// `goal`: below which the cosine need not be known.
static int propose_try(struct proposing *p, const uint32_t *floats, uint32_t n, double goal,
                       double *leasts, double *ret)
{
    struct propose_try *t = &p->tries[0];
    if (n)
        memcpy(t->floats, floats, n * sizeof *floats);
    t->n = n;
    t->how =
        (struct quant_trial_run){.n_samples = p->trial.n_samples, .goal = goal, .leasts = leasts};
    int r = propose_try_all(p, 1);
    *ret = r < 0 ? *ret : t->cosine;
    return r;
}

// ---- what each unit costs ----

// Measurements of units, which do not depend on each other.
struct propose_measuring {
    struct proposing *p;
    bool products;
    uint32_t besides;
};

// The cost of unit i: all other units but `besides` are float, so what its own 8 bits do is all
// that the outputs differ by. A tensor between it and a float unit is stored in 8 bits then, too.
static int propose_measure_one(void *user, uint32_t i, struct error *e)
{
    const struct propose_measuring *m = user;
    struct proposing *p = m->p;
    struct propose_try t = {.how = {.n_clients = 1, .n_samples = MEASURED, .goal = -INFINITY}};
    if (p->units[i].is_product != m->products)
        return 0;
    cleanup(free_p) uint32_t *floats = calloc((size_t)p->n + 1, sizeof *floats);
    if (!floats)
        return error_no_memory(e, "the nodes", p->n);
    t.floats = floats;
    for (uint32_t k = 0; k < p->n; k++)
        if (k != i && (m->products || k != m->besides))
            floats[t.n++] = k;
    int r = quant_caller_act(&p->caller, e);
    if (r == 0)
        r = propose_try_one(p, &t, e);
    p->units[i].cost = 1 - t.cosine;
    return r;
}

// Costs of all units that are products, or of all that are none, beside one that is (`besides`; of
// a product it is itself).
static int propose_measure_all(struct proposing *p, bool products, uint32_t besides)
{
    struct propose_measuring m = {.p = p, .products = products, .besides = besides};
    // One more than there are clients: each waits now and then.
    return quant_parallel(p->n_threads + (p->n_threads > 1), p->n, propose_measure_one, &m, p->e);
}

// A model needs a product in integers: other units are measured beside the one that costs least,
// and its own cost is taken off. That may come out below 0, where two errors are opposite: last
// then.
static int propose_measure(struct proposing *p)
{
    uint32_t best = UINT32_MAX;
    int r = propose_measure_all(p, true, 0);
    for (uint32_t i = 0; i < p->n && r == 0; i++)
        if (p->units[i].is_product &&
            (best == UINT32_MAX || p->units[i].cost < p->units[best].cost))
            best = i;
    if (r == 0)
        r = propose_measure_all(p, false, best);
    for (uint32_t i = 0; i < p->n && r == 0; i++)
        if (!p->units[i].is_product)
            p->units[i].cost -= p->units[best].cost;
    if (r == 0)
        quant_units_sort(p->units, p->n);
    return r;
}

// ---- how many ----

// The least number of the costliest that reaches the goal, as far as more never do worse. Where
// they do (two errors that were opposite), the number is still one that was seen to reach it. What
// the most of them reach is told, so all of its samples are run.
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
        r = propose_try(p, p->chosen, high, high < most ? p->goal->cosine : -INFINITY, NULL, ret);
        if (r == 0 && *ret >= p->goal->cosine)
            break;
        low = high;
    }
    while (r == 0 && high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        double cosine;
        r = propose_try(p, p->chosen, middle, p->goal->cosine, NULL, &cosine);
        bool reached = r == 0 && cosine >= p->goal->cosine;
        *(reached ? &high : &low) = middle;
        if (reached)
            *ret = cosine;
    }
    *ret_n = high;
    return r;
}

// The chosen ones without the one at `place`.
static void propose_without(const struct proposing *p, uint32_t n, uint32_t place,
                            struct propose_try *t)
{
    t->n = 0;
    t->how = (struct quant_trial_run){.n_samples = p->trial.n_samples, .goal = p->goal->cosine};
    for (uint32_t i = 0; i < n; i++)
        if (i != place)
            t->floats[t->n++] = p->chosen[i];
}

// Leaves out what is not needed, what costs least first. Once is enough for a set none of whose
// members can be spared, again as far as more floats never do worse. Behind one that was not needed
// tries that went on at the same time are of another set, and are made again.
static int propose_thin(struct proposing *p, uint32_t *n, double *ret)
{
    int r = 0;
    for (uint32_t left = *n; left > 0 && *n > 1 && r == 0;) {
        uint32_t some = left < p->n_threads ? left : p->n_threads, i = 0;
        for (; i < some; i++)
            propose_without(p, *n, left - 1 - i, &p->tries[i]);
        r = propose_try_all(p, some);
        for (i = 0; i < some && r == 0; i++) {
            left--;
            if (p->tries[i].cosine < p->goal->cosine)
                continue;
            memmove(p->chosen + left, p->chosen + left + 1, (*n - left - 1) * sizeof *p->chosen);
            *ret = p->tries[i].cosine;
            --*n;
            break;
        }
    }
    return r;
}

// The cheapest answer first: a model that is good enough in 8 bits costs one try.
static int propose_search(struct proposing *p, rknnd_quant_proposal *ret)
{
    uint32_t n = 0;
    double cosine = 0;
    cleanup(free_p) double *leasts = calloc((size_t)p->trial.n_samples + 1, sizeof *leasts);
    if (!leasts)
        return error_no_memory(p->e, "samples", p->trial.n_samples);
    quant_stage(p->trial.samples, "a try without floats");
    int r = propose_try(p, NULL, 0, -INFINITY, leasts, &cosine);
    ret->plain_cosine = cosine;
    if (r < 0)
        return r;
    quant_trial_order(&p->trial, leasts);
    if (cosine < p->goal->cosine) {
        quant_stage(p->trial.samples, "what layers cost");
        r = propose_measure(p);
        quant_stage(p->trial.samples, "how many floats");
        if (r == 0)
            r = propose_count(p, &n, &cosine);
        quant_stage(p->trial.samples, "which are needed");
        if (r == 0)
            r = propose_thin(p, &n, &cosine);
    }
    if (r == 0)
        r = propose_set(p, p->q, p->chosen, n, p->choices, &p->n_chosen, p->e);
    ret->n_tries = p->n_tries;
    ret->cosine = cosine;
    return r;
}

// The names of what is set, in the order of units.
static int propose_keep(struct proposing *p, rknnd_quant_proposal *ret)
{
    const char **names = calloc((size_t)p->n_chosen + 1, sizeof *names);
    if (!names)
        return error_no_memory(p->e, "names", p->n_chosen);
    for (uint32_t i = 0; i < p->n_chosen; i++)
        names[i] = p->choices[i].name;
    free(p->q->proposed);
    p->q->proposed = names;
    p->q->goal = p->goal->cosine;
    p->q->cosine = ret->cosine;
    p->q->plain_cosine = ret->plain_cosine;
    ret->floats = names;
    ret->n_floats = p->n_chosen;
    return 0;
}

// After a failure nothing but the options' nodes is float: what was tried last is no proposal.
int quant_propose(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                  const rknnd_quant_goal *goal, rknnd_quant_proposal *ret, struct error *e)
{
    struct proposing p = {.q = q,
                          .goal = goal,
                          .n_threads = quant_clients(samples, UINT32_MAX),
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .e = e};
    struct error ignored;
    quant_stage(samples, "noise");
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
    propose_end(&p);
    return r;
}
