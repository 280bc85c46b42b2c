// Groups of a plan with more floats are parts of those of the plan that was calibrated: a move that
// is float now joins its tensors no more. What is left whole keeps its range.
#include "quant/hybrid/quant_floats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/quant_parallel.h"

static void floats_layout_done(struct quant_layout *l)
{
    free(l->ranges);
    free(l->forms);
    *l = (struct quant_layout){0};
}

// ---- plans ----

// The last choice counts. What the options keep in float stays so: its tensors may not have been
// looked at.
static int floats_plan(const struct rknnd_quant *q, uint32_t n, const struct quant_choice *more,
                       struct quant_plan *ret, struct error *e)
{
    size_t all = (size_t)n + 2 * (size_t)q->n_choices, at = 0;
    cleanup(free_p) struct quant_choice *choices = calloc(all + 1, sizeof *choices);
    *ret = (struct quant_plan){0};
    if (!choices)
        return error_no_memory(e, "the plan", all);
    for (uint32_t i = 0; i < q->n_choices; i++)
        choices[at++] = q->choices[i];
    for (uint32_t i = 0; i < n; i++)
        choices[at++] = (struct quant_choice){
            .name = quant_model_present_name(&q->model, more[i].name), .bits = more[i].bits};
    for (uint32_t i = 0; i < q->n_choices; i++)
        if (!q->choices[i].bits)
            choices[at++] = q->choices[i];
    const struct quant_plan_options options = {.fuse_activations = q->fuses_activations,
                                               .bits = q->store.bits,
                                               .choices = choices,
                                               .n_choices = at};
    return quant_plan_make(ret, &q->model, &q->index, &options, e);
}

// Of the summary, what depends on the plan.
static void floats_count(struct rknnd_quant *q)
{
    q->summary.n_quantized = q->summary.n_tensors = 0;
    for (uint32_t i = 0; i < q->now.n_nodes; i++)
        q->summary.n_quantized += q->now.kinds[i] != QUANT_NODE_FLOAT;
    for (uint32_t i = 0; i < q->now.n_edges; i++)
        q->summary.n_tensors += q->now.places[i].quantized;
    q->summary.n_nodes = q->now.n_nodes;
}

int quant_floats_begin(struct rknnd_quant *q, struct error *e)
{
    struct quant_plan fresh;
    int r = floats_plan(q, 0, NULL, &fresh, e);
    if (r < 0) {
        quant_plan_done(&fresh);
        return r;
    }
    quant_plan_done(&q->now);
    q->now = fresh;
    floats_count(q);
    return 0;
}

// ---- layouts ----

static int floats_layout_init(struct quant_layout *l, uint32_t n, struct error *e)
{
    *l = (struct quant_layout){.ranges = calloc((size_t)n + 1, sizeof *l->ranges),
                               .forms = calloc((size_t)n + 1, sizeof *l->forms)};
    return l->ranges && l->forms ? 0 : error_no_memory(e, "the plan", n);
}

// How many tensors of each group were looked at.
static uint32_t *floats_seen(const struct rknnd_quant *q, const struct quant_plan *p,
                             struct error *e)
{
    uint32_t *n = calloc((size_t)p->n_edges + 1, sizeof *n);
    if (!n)
        error_no_memory(e, "the plan", p->n_edges);
    for (uint32_t i = 0; n && i < p->n_edges; i++)
        n[p->places[i].group] += p->places[i].quantized && q->seen[i].bins;
    return n;
}

// How the range of a group is chosen that is, or is part of, this tensor's when it is calibrated.
static enum quant_algorithm floats_algorithm(const struct rknnd_quant *q, uint32_t edge)
{
    bool plain = q->settled.tensors && q->settled.tensors[q->plan.places[edge].group];
    return plain ? QUANT_ALGORITHM_NORMAL : q->algorithm;
}

// Groups whose ranges are to be chosen.
struct floats_choosing {
    const struct rknnd_quant *q;
    const struct quant_plan *p;
    uint32_t *groups, n;
    struct quant_range *ranges;
};

// The range of what all tensors of a group saw.
static int floats_choose_group(void *user, uint32_t part, struct error *e)
{
    const struct floats_choosing *c = user;
    const struct rknnd_quant *q = c->q;
    uint32_t group = c->groups[part];
    struct observer all = {0};
    int r = observer_init(&all, 0, e);
    for (uint32_t i = 0; i < c->p->n_edges && r == 0; i++)
        if (c->p->places[i].quantized && c->p->places[i].group == group && q->seen[i].bins)
            observer_merge(&all, &q->seen[i]);
    if (r == 0)
        c->ranges[group] = quant_range_choose(&all, floats_algorithm(q, group),
                                              quant_store_of(q, c->p->places[group].bits));
    observer_done(&all);
    return r;
}

// Ranges of all groups of a plan; `base` NULL: there is none to take any from. Choosing one by mmse
// takes longer than a small model runs, and most groups are the same in each try, so only groups
// that have lost tensors are looked at again. One that has none left which was looked at (behind a
// move that is float now) keeps the range of the group that it comes from: that moves elements, or
// chooses among them, so they lie in it.
static int floats_ranges(const struct rknnd_quant *q, const struct quant_plan *p,
                         const struct quant_layout *base, struct quant_layout *l, struct error *e)
{
    cleanup(free_p) uint32_t *seen = floats_seen(q, p, e);
    cleanup(free_p) uint32_t *before = seen ? floats_seen(q, &q->plan, e) : NULL;
    cleanup(free_p) bool *chosen = calloc((size_t)p->n_edges + 1, sizeof *chosen);
    cleanup(free_p) uint32_t *groups = calloc((size_t)p->n_edges + 1, sizeof *groups);
    struct floats_choosing c = {.q = q, .p = p, .groups = groups, .ranges = l->ranges};
    if (!seen || !before || !chosen || !groups)
        return error_no_memory(e, "the plan", p->n_edges);
    for (uint32_t i = 0; i < p->n_edges; i++) {
        uint32_t group = p->places[i].group, old = q->plan.places[i].group;
        if (!p->places[i].quantized || chosen[group])
            continue;
        chosen[group] = true;
        if (!before[old])
            return error_set(e, STATUS_PARAM_INVALID,
                             "tensor %s would be int8, which was not looked at",
                             q->index.edges[i].name);
        bool same = !seen[group] || (seen[group] == before[old] &&
                                     p->places[group].bits == q->plan.places[old].bits);
        if (base && same)
            l->ranges[group] = base->ranges[old];
        else
            groups[c.n++] = group;
    }
    return quant_parallel(q->n_clients, c.n, floats_choose_group, &c, e);
}

// A bound of a Clip; without one, or where it is infinite, `otherwise`.
static float floats_bound(const struct rknnd_quant *q, const Quant__Node *n, size_t input,
                          float otherwise)
{
    struct error ignored;
    const Quant__Tensor *t = quant_index_weight(&q->index, n, input);
    const float *value;
    if (!t || quant_constant_count(t) != 1 || quant_constant_floats(t, &value, &ignored) < 0)
        return otherwise;
    return *value;
}

void quant_floats_fit_clips(const struct rknnd_quant *q, const struct quant_plan *p,
                            struct quant_range *ranges)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const Quant__Node *n = q->model.graph->node[i];
        const struct quant_edge *out = quant_index_find(&q->index, quant_output(n, 0));
        const struct quant_place *place = quant_plan_place(p, &q->index, out);
        if (!quant_is(n, "Clip") || p->kinds[i] == QUANT_NODE_FLOAT || !place || !place->quantized)
            continue;
        struct quant_range *r = &ranges[place->group];
        *r = quant_range_within_bounds(*r, floats_bound(q, n, 1, -INFINITY),
                                       floats_bound(q, n, 2, INFINITY),
                                       quant_store_of(q, p->places[place->group].bits));
    }
}

// Edits are of edges, not of groups, since those are others in each plan.
static int floats_lay_out(const struct rknnd_quant *q, const struct quant_plan *p,
                          const struct quant_layout *base, const struct quant_edit *edits,
                          struct quant_layout *l, struct error *e)
{
    int r = floats_layout_init(l, p->n_edges, e);
    if (r == 0)
        r = floats_ranges(q, p, base, l, e);
    if (r == 0)
        quant_floats_fit_clips(q, p, l->ranges);
    for (uint32_t i = 0; i < p->n_edges && r == 0; i++) {
        uint32_t group = p->places[i].group;
        if (!p->places[i].quantized)
            continue;
        if (edits && edits[i].set)
            l->ranges[group] = edits[i].range;
        l->forms[group] =
            quant_form_of_range(l->ranges[group], quant_store_of(q, p->places[group].bits));
    }
    return r;
}

// The base layout stays as the calibration chose it, whatever is edited: edits are what differs
// from it.
int quant_floats_choose(struct rknnd_quant *q, struct error *e)
{
    int r = floats_lay_out(q, &q->plan, NULL, NULL, &q->base, e);
    if (r == 0)
        r = floats_lay_out(q, &q->now, &q->base, NULL, &q->layout, e);
    return r;
}

// ---- setting ----

// With the names in one block. NULL: out of memory.
static struct quant_choice *floats_copy(uint32_t n, const struct quant_choice *choices)
{
    size_t size = ((size_t)n + 1) * sizeof *choices;
    for (uint32_t i = 0; i < n; i++)
        size += strlen(choices[i].name) + 1;
    struct quant_choice *own = calloc(1, size);
    char *at = own ? (char *)(own + n + 1) : NULL;
    for (uint32_t i = 0; i < n && own; i++) {
        own[i] = (struct quant_choice){.name = at, .bits = choices[i].bits};
        at = stpcpy(at, choices[i].name) + 1;
    }
    return own;
}

// The new plan and layout are whole before they replace the present ones. Names may be those that
// are replaced, so they are copied first.
int quant_floats_set(struct rknnd_quant *q, uint32_t n, const struct quant_choice *choices,
                     struct quant_edit *edits, struct error *e)
{
    struct quant_plan plan;
    struct quant_layout layout = {0};
    struct quant_choice *own = floats_copy(n, choices);
    int r = floats_plan(q, n, choices, &plan, e);
    if (r == 0 && !own)
        r = error_no_memory(e, "names", n);
    if (r == 0)
        r = floats_lay_out(q, &plan, &q->base, edits ? edits : q->edits, &layout, e);
    if (r < 0) {
        quant_plan_done(&plan);
        floats_layout_done(&layout);
        free(own);
        return r;
    }
    quant_plan_done(&q->now);
    floats_layout_done(&q->layout);
    free(q->more);
    q->now = plan;
    q->layout = layout;
    q->more = own;
    q->n_more = n;
    if (edits) {
        free(q->edits);
        q->edits = edits;
    }
    floats_count(q);
    return 0;
}

struct rknnd_quant quant_floats_fork(const struct rknnd_quant *q)
{
    struct rknnd_quant fork = *q;
    fork.now = (struct quant_plan){0};
    fork.layout = (struct quant_layout){0};
    fork.more = NULL;
    fork.n_more = 0;
    fork.n_clients = 1;
    return fork;
}

void quant_floats_join(struct rknnd_quant *fork)
{
    quant_plan_done(&fork->now);
    floats_layout_done(&fork->layout);
    free(fork->more);
}

// The tensors of a group of the calibrated plan get the same range, also where a plan with more
// floats parts them: the table, too, shows one range for all of them.
int quant_floats_edit(const struct rknnd_quant *q, struct quant_edit *edits, uint32_t i,
                      struct quant_range range, struct error *e)
{
    const char *name = q->index.edges[i].name;
    if (!isfinite(range.low) || !isfinite(range.high) || range.low > 0 || range.high < 0 ||
        !(range.low < range.high))
        return error_set(e, STATUS_PARAM_INVALID,
                         "tensor %s: a range from %g to %g; 0 must be in it", name,
                         (double)range.low, (double)range.high);
    for (uint32_t k = 0; k < q->index.n; k++) {
        if (!q->plan.places[k].quantized || q->plan.places[k].group != q->plan.places[i].group)
            continue;
        if (edits[k].set && (edits[k].range.low != range.low || edits[k].range.high != range.high))
            return error_set(e, STATUS_PARAM_INVALID,
                             "tensors %s and %s have one scale, but are given two ranges", name,
                             q->index.edges[k].name);
    }
    for (uint32_t k = 0; k < q->index.n; k++)
        if (q->plan.places[k].quantized && q->plan.places[k].group == q->plan.places[i].group)
            edits[k] = (struct quant_edit){.set = true, .range = range};
    return 0;
}

void quant_floats_forget(struct rknnd_quant *q)
{
    floats_layout_done(&q->base);
    floats_layout_done(&q->layout);
    free(q->edits);
    free(q->more);
    free(q->noise);
    free(q->proposed);
    q->edits = NULL;
    q->more = NULL;
    q->n_more = 0;
    q->noise = NULL;
    q->proposed = NULL;
    q->goal = 0;
}
