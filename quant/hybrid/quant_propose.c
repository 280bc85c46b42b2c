// The order is by measured noise, but whether the goal is reached is tried. First how many of the
// noisiest it takes: 1, 2, 4, …, then between the last two numbers. Then each of those is tried
// without: noise that hardly gets to the outputs is none to pay for.
#include "quant/hybrid/quant_propose.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/hybrid/quant_trial.h"

#define SAMPLES 8

struct proposing {
    struct rknnd_quant *q;
    struct quant_trial trial;
    const rknnd_quant_goal *goal;
    const char **names; // of the nodes that can stay float, the noisiest first
    uint32_t n;
    const char **chosen;
    struct quant_choice *choices; // room for what is tried
    uint32_t n_tries;
    struct error *e;
};

struct ranked {
    double noise;
    uint32_t node;
};

// The noisiest first; of equal ones the earlier node, so that the order is always the same.
static int propose_order(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->noise != y->noise)
        return x->noise < y->noise ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

// One product is left in 8 bits at least: without any there is nothing to quantize.
static int propose_rank(struct proposing *p)
{
    const struct rknnd_quant *q = p->q;
    cleanup(free_p) struct ranked *list = calloc((size_t)q->plan.n_nodes + 1, sizeof *list);
    p->names = calloc((size_t)q->plan.n_nodes + 1, sizeof *p->names);
    p->chosen = calloc((size_t)q->plan.n_nodes + 1, sizeof *p->chosen);
    p->choices = calloc((size_t)q->plan.n_nodes + 1, sizeof *p->choices);
    if (!list || !p->names || !p->chosen || !p->choices)
        return error_no_memory(p->e, "the nodes", q->plan.n_nodes);
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->plan.n_nodes; i++)
        if (q->plan.kinds[i] == QUANT_NODE_PRODUCT || q->plan.kinds[i] == QUANT_NODE_VALUE)
            list[n++] = (struct ranked){quant_noise_total(q->noise[i]), i};
    qsort(list, n, sizeof *list, propose_order);
    uint32_t left = n; // the product with least noise, from behind
    while (left-- > 0 && q->plan.kinds[list[left].node] != QUANT_NODE_PRODUCT)
        ;
    for (uint32_t i = left; i + 1 < n; i++)
        list[i] = list[i + 1];
    p->n = n - 1;
    for (uint32_t i = 0; i < p->n; i++)
        p->names[i] = quant_output(q->model.graph->node[list[i].node], 0);
    return 0;
}

static int propose_set(struct proposing *p, const char *const *layers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p->choices[i] = (struct quant_choice){layers[i], (uint8_t)p->goal->type};
    return quant_floats_set(p->q, n, p->choices, NULL, p->e);
}

// One choice, written and run. What it chose stays set until the next one.
static int propose_try(struct proposing *p, const char *const *floats, uint32_t n, double *ret)
{
    int r = propose_set(p, floats, n);
    if (r == 0)
        r = quant_trial_run(&p->trial, ret, p->e);
    if (r < 0)
        return r;
    p->n_tries++;
    if (p->goal->tried && p->goal->tried(p->trial.samples->user, n, *ret))
        return error_set(p->e, STATUS_FAIL, "ended after %u tries", p->n_tries);
    return 0;
}

// The least number of the noisiest that reaches the goal, as far as more never do worse. Where they
// do (two errors that were opposite), the number is still one that was seen to reach it.
static int propose_count(struct proposing *p, uint32_t *ret_n, double *ret)
{
    uint32_t low = 0, high = 1; // low does not reach it
    double plain = *ret;
    int r = 0;
    for (; r == 0; high *= 2) {
        high = high > p->n ? p->n : high;
        if (high == low)
            return error_set(
                p->e, STATUS_FAIL,
                "the goal of %g is not reached: the outputs' cosine is %.6g in 8 bits, "
                "and %.6g with all nodes but one product in floats",
                p->goal->cosine, plain, *ret);
        r = propose_try(p, p->names, high, ret);
        if (r == 0 && *ret >= p->goal->cosine)
            break;
        low = high;
    }
    while (r == 0 && high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        double cosine;
        r = propose_try(p, p->names, middle, &cosine);
        bool reached = r == 0 && cosine >= p->goal->cosine;
        *(reached ? &high : &low) = middle;
        if (reached)
            *ret = cosine;
    }
    *ret_n = high;
    return r;
}

// Leaves out what is not needed, the least noisy first. Once is enough for a set none of whose
// members can be spared, again as far as more floats never do worse.
static int propose_thin(struct proposing *p, uint32_t *n, double *ret)
{
    int r = 0;
    for (uint32_t i = *n; i-- > 0 && *n > 1 && r == 0;) {
        const char *without = p->chosen[i];
        double cosine;
        memmove(p->chosen + i, p->chosen + i + 1, (*n - i - 1) * sizeof *p->chosen);
        r = propose_try(p, p->chosen, *n - 1, &cosine);
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
    int r = propose_try(p, NULL, 0, &cosine);
    ret->plain_cosine = cosine;
    if (r < 0)
        return r;
    if (cosine < p->goal->cosine) {
        r = propose_count(p, &n, &cosine);
        for (uint32_t i = 0; i < n && r == 0; i++)
            p->chosen[i] = p->names[i];
        if (r == 0)
            r = propose_thin(p, &n, &cosine);
    }
    if (r == 0)
        r = propose_set(p, p->chosen, n);
    ret->n_floats = n;
    ret->n_tries = p->n_tries;
    ret->cosine = cosine;
    return r;
}

// After a failure nothing but the options' nodes is float: what was tried last is no proposal.
int quant_propose(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                  const rknnd_quant_goal *goal, rknnd_quant_proposal *ret, struct error *e)
{
    struct proposing p = {.q = q, .goal = goal, .e = e};
    struct error ignored;
    int r = quant_noise_measure(q, e);
    if (r == 0)
        r = propose_rank(&p);
    if (r == 0)
        r = quant_trial_begin(&p.trial, q, samples, goal->n_samples ? goal->n_samples : SAMPLES, e);
    if (r == 0)
        r = propose_search(&p, ret);
    if (r == 0) {
        free(q->proposed);
        q->proposed = steal_ptr(p.chosen);
        ret->floats = q->proposed;
        q->goal = goal->cosine;
        q->cosine = ret->cosine;
        q->plain_cosine = ret->plain_cosine;
    } else {
        quant_floats_set(q, 0, NULL, NULL, &ignored);
    }
    quant_trial_done(&p.trial);
    free(p.names);
    free(p.chosen);
    free(p.choices);
    return r;
}
