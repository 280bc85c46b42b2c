// The public functions: their order, and what they hand out.
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_calibrate.h"
#include "quant/calibrate/quant_searched.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_hybrid.h"
#include "quant/hybrid/quant_propose.h"
#include "quant/hybrid/quant_settle.h"
#include "quant/hybrid/quant_several.h"
#include "quant/model/quant_origin.h"
#include "quant/plan/quant_rewrite.h"

static _Thread_local struct error last_error;

QUANT_EXPORT const char *rknnd_quant_last_error(void)
{
    return last_error.text;
}

int quant_keep(int r, const struct error *e)
{
    if (r < 0)
        last_error = *e;
    return r;
}

// ---- structs of programs ----

int quant_take(void *ours, uint32_t size, const void *theirs, const char *what, struct error *e)
{
    uint32_t its;
    memset(ours, 0, size);
    if (!theirs)
        return 0;
    memcpy(&its, theirs, sizeof its);
    if (its < 2 * sizeof its)
        return error_set(e, STATUS_PARAM_INVALID, "%s: struct_size is %u", what, its);
    for (uint32_t i = size; i < its; i++)
        if (((const char *)theirs)[i])
            return error_set(e, STATUS_PARAM_INVALID,
                             "%s: something is set that this version of the library has not", what);
    memcpy(ours, theirs, its < size ? its : size);
    return 0;
}

uint32_t quant_clients(const rknnd_quant_samples *samples, uint32_t n)
{
    uint32_t wanted = samples->n_clients ? samples->n_clients : 2;
    wanted = wanted > QUANT_MOST_CLIENTS ? QUANT_MOST_CLIENTS : wanted;
    return wanted > n ? n : wanted;
}

int quant_sample_failed(const rknnd_quant_samples *samples, uint32_t sample, int code,
                        const char *words, struct error *e)
{
    char name[256];
    snprintf(name, sizeof name, "sample %u", sample);
    if (samples->describe)
        samples->describe(samples->user, sample, name, sizeof name);
    return error_set(e, code, "%s: %s", name, words);
}

// ---- its end ----

static void observers_free(struct observer *list, uint32_t n)
{
    for (uint32_t i = 0; list && i < n; i++)
        observer_done(&list[i]);
    free(list);
}

static void quant_forget(struct rknnd_quant *q)
{
    quant_opening_drop(&q->opening);
    observers_free(q->seen, q->index.n);
    quant_floats_forget(q);
    quant_settled_done(&q->settled);
    quant_searched_done(q);
    free(q->tensors);
    free(q->layers);
    q->layers = NULL;
    q->seen = NULL;
    q->tensors = NULL;
    q->calibrated = false;
}

QUANT_EXPORT void rknnd_quant_free(rknnd_quant *q)
{
    if (!q)
        return;
    quant_forget(q);
    free(q->nodes);
    free(q->between);
    quant_plan_done(&q->plan);
    quant_plan_done(&q->now);
    quant_index_done(&q->index);
    quant_model_done(&q->model);
    free(q->path);
    free(q);
}

// ---- calibrating ----

bool quant_is_first(const struct rknnd_quant *q, const struct quant_edge *edge)
{
    while (edge && !edge->is_input && edge->producer >= 0 &&
           q->now.kinds[edge->producer] == QUANT_NODE_FLOAT)
        edge = quant_index_find(&q->index, quant_input(q->model.graph->node[edge->producer], 0));
    return edge && edge->is_input;
}

// Of an input that the model normalizes, what comes out of that is looked at.
static void quant_count_constant_inputs(struct rknnd_quant *q)
{
    q->summary.n_constant_inputs = 0;
    for (uint32_t i = 0; i < q->index.n; i++)
        q->summary.n_constant_inputs += q->seen[i].bins && quant_is_first(q, &q->index.edges[i]) &&
                                        q->seen[i].min == q->seen[i].max;
}

static int quant_calibrate_all(struct rknnd_quant *q, const rknnd_quant_samples *given,
                               struct error *e)
{
    rknnd_quant_samples s;
    int r = quant_take(&s, sizeof s, given, "rknnd_quant_samples", e);
    if (r == 0 && (!s.n || !s.read))
        r = error_set(e, STATUS_PARAM_INVALID, "there are no samples");
    if (r < 0)
        return r;
    quant_forget(q);
    q->n_clients = quant_clients(&s, UINT32_MAX);
    q->seen = calloc(q->index.n + 1, sizeof *q->seen);
    q->edits = calloc(q->index.n + 1, sizeof *q->edits);
    if (!q->seen || !q->edits)
        return error_no_memory(e, "the calibration", q->index.n);
    r = quant_floats_begin(q, e);
    if (r == 0)
        r = quant_calibrate(q, &s, &q->summary.n_resumed, e);
    quant_stage(&s, "ranges");
    if (r == 0)
        r = quant_floats_choose(q, e);
    quant_stage(&s, "scales of weights");
    if (r == 0)
        r = quant_searched_make(q, e);
    if (r == 0 && q->settles)
        r = quant_settle(q, &s, e);
    quant_opening_drop(&q->opening);
    if (r == 0)
        r = quant_calibrate_end(q, &s, e);
    if (r < 0)
        return r;
    quant_stage(&s, "lists");
    quant_count_constant_inputs(q);
    q->calibrated = true;
    return quant_lists_make(q, e);
}

QUANT_EXPORT int rknnd_quant_calibrate(rknnd_quant *quant, const rknnd_quant_samples *samples)
{
    struct error e = {0};
    int r = quant && samples ? quant_calibrate_all(quant, samples, &e)
                             : error_set(&e, STATUS_PARAM_INVALID, "no model, or no samples");
    return quant_keep(r, &e);
}

// ---- writing ----

// Means of each edge's channels; rows of *ret point into one block behind them.
static int quant_means(const struct rknnd_quant *q, const double ***ret, uint32_t **ret_n,
                       struct error *e)
{
    size_t sums = 0;
    for (uint32_t i = 0; i < q->index.n; i++)
        sums += q->seen[i].n_channels;
    const double **rows = calloc(1, (q->index.n + 1) * sizeof *rows + sums * sizeof(double));
    uint32_t *n = calloc(q->index.n + 1, sizeof *n);
    *ret = rows;
    *ret_n = n;
    if (!rows || !n)
        return error_no_memory(e, "means", sums);
    double *at = (double *)(rows + q->index.n + 1);
    for (uint32_t i = 0; i < q->index.n; i++) {
        const struct observer *o = &q->seen[i];
        rows[i] = o->n_channels ? at : NULL;
        n[i] = o->n_channels;
        for (uint32_t c = 0; c < o->n_channels; c++)
            *at++ = o->n_summed ? o->sums[c] / ((double)o->n_summed / o->n_channels) : 0;
    }
    return 0;
}

// Works on a copy, so that the float model stays for the next one. The index and the plan are of
// names and numbers of nodes, which both have.
int quant_make(struct rknnd_quant *q, struct quant_model *ret, struct error *e)
{
    cleanup(free_p) const double **means = NULL;
    cleanup(free_p) uint32_t *n_means = NULL;
    cleanup(free_p) struct quant_form *forms = calloc(q->index.n + 1, sizeof *forms);
    *ret = (struct quant_model){0};
    if (!forms)
        return error_no_memory(e, "the model", 0);
    int r = quant_means(q, &means, &n_means, e);
    if (r == 0)
        r = quant_model_copy(ret, &q->model, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < q->index.n; i++)
        forms[i] = q->layout.forms[q->now.places[i].group];
    const struct quant_rewrite_plan p = {
        .plan = &q->now,
        .index = &q->index,
        .forms = forms,
        .means = q->corrects_bias ? means : NULL,
        .n_means = n_means,
        .weights = {.per_channel = !q->per_layer,
                    .search = q->algorithm == QUANT_ALGORITHM_MMSE,
                    .store = q->store,
                    .n_threads = q->n_clients},
        .plain_weights = q->settled.weights,
        .searched = q->searched,
    };
    return quant_rewrite(ret, &p, e);
}

int quant_check_calibrated(const struct rknnd_quant *q, struct error *e)
{
    return q && q->calibrated
               ? 0
               : error_set(e, STATUS_PARAM_INVALID, q ? "it is not calibrated" : "no model");
}

int quant_check_output(const struct rknnd_quant *q, const char *path, struct error *e)
{
    return quant_origin_check(q->path, path, e);
}

QUANT_EXPORT int rknnd_quant_check_output(const char *model, const char *output)
{
    struct error e = {0};
    return quant_keep(model && output
                          ? quant_origin_check(model, output, &e)
                          : error_set(&e, STATUS_PARAM_INVALID, "no path, or no output"),
                      &e);
}

static int quant_check_write(const struct rknnd_quant *q, const char *path, struct error *e)
{
    int r = quant_check_calibrated(q, e);
    return r < 0 ? r : quant_check_output(q, path, e);
}

static int quant_write(struct rknnd_quant *q, const char *path, struct error *e)
{
    struct quant_model m;
    int r = quant_check_write(q, path, e);
    if (r < 0)
        return r;
    r = quant_make(q, &m, e);
    if (r == 0)
        r = quant_model_save(&m, path, q->parts, e);
    quant_model_done(&m);
    return r;
}

QUANT_EXPORT int rknnd_quant_write(rknnd_quant *quant, const char *path)
{
    struct error e = {0};
    int r = quant && path ? quant_write(quant, path, &e)
                          : error_set(&e, STATUS_PARAM_INVALID, "no model, or no path");
    return quant_keep(r, &e);
}

static int quant_write_batch(struct rknnd_quant *q, const char *path, uint32_t batch,
                             struct error *e)
{
    int r = quant_check_write(q, path, e);
    if (r < 0)
        return r;
    return batch > 1 ? quant_several_write(q, path, batch, e) : quant_write(q, path, e);
}

QUANT_EXPORT int rknnd_quant_write_batch(rknnd_quant *quant, const char *path, uint32_t batch)
{
    struct error e = {0};
    int r = quant && path ? quant_write_batch(quant, path, batch, &e)
                          : error_set(&e, STATUS_PARAM_INVALID, "no model, or no path");
    return quant_keep(r, &e);
}

static int quant_write_float(const struct rknnd_quant *q, const char *path, struct error *e)
{
    int r = quant_check_output(q, path, e);
    return r < 0 ? r : quant_model_save(&q->model, path, q->parts, e);
}

QUANT_EXPORT int rknnd_quant_write_float(rknnd_quant *quant, const char *path)
{
    struct error e = {0};
    int r = quant && path ? quant_write_float(quant, path, &e)
                          : error_set(&e, STATUS_PARAM_INVALID, "no model, or no path");
    return quant_keep(r, &e);
}

// ---- layers in floats ----

static bool quant_is_type(rknnd_quant_type type)
{
    return type == RKNND_QUANT_FLOAT16 || type == RKNND_QUANT_INT8 || type == RKNND_QUANT_INT16;
}

// types NULL: all float.
static int quant_set_types(struct rknnd_quant *q, uint32_t n, const char *const *layers,
                           const rknnd_quant_type *types, struct error *e)
{
    cleanup(free_p) struct quant_choice *choices = calloc((size_t)n + 1, sizeof *choices);
    if (!choices)
        return error_no_memory(e, "names", n);
    for (uint32_t i = 0; i < n; i++) {
        if (!layers || !layers[i] || (types && !quant_is_type(types[i])))
            return error_set(e, STATUS_PARAM_INVALID, "layer %u: no name, or no type", i);
        choices[i] = (struct quant_choice){layers[i], types ? (uint8_t)types[i] : 0};
    }
    int r = quant_chip_check_choices(q->chip, choices, n, e);
    return r < 0 ? r : quant_floats_set(q, n, choices, NULL, e);
}

QUANT_EXPORT int rknnd_quant_set_types(rknnd_quant *quant, uint32_t n, const char *const *layers,
                                       const rknnd_quant_type *types)
{
    struct error e = {0};
    int r = quant_check_calibrated(quant, &e);
    if (r == 0)
        r = quant_set_types(quant, n, layers, types, &e);
    return quant_keep(r < 0 ? r : quant_lists_make(quant, &e), &e);
}

QUANT_EXPORT int rknnd_quant_set_floats(rknnd_quant *quant, uint32_t n, const char *const *floats)
{
    return rknnd_quant_set_types(quant, n, floats, NULL);
}

// Edits of other groups stay; one of this group is replaced.
static int quant_set_range(struct rknnd_quant *q, const char *tensor, float low, float high,
                           struct error *e)
{
    const struct quant_edge *edge = quant_index_find_named(&q->index, tensor);
    if (!edge || !quant_plan_place(&q->plan, &q->index, edge)->quantized)
        return error_set(e, STATUS_PARAM_INVALID, "the model has no stored tensor \"%s\"", tensor);
    cleanup(free_p) struct quant_edit *edits = calloc(q->index.n + 1, sizeof *edits);
    if (!edits)
        return error_no_memory(e, "ranges", q->index.n);
    uint32_t i = (uint32_t)(edge - q->index.edges);
    for (uint32_t k = 0; k < q->index.n; k++)
        if (q->plan.places[k].group != q->plan.places[i].group)
            edits[k] = q->edits[k];
    int r = quant_floats_edit(q, edits, i, (struct quant_range){low, high}, e);
    if (r == 0)
        r = quant_floats_set(q, q->n_more, q->more, edits, e);
    if (r == 0)
        edits = NULL; // taken
    return r;
}

QUANT_EXPORT int rknnd_quant_set_range(rknnd_quant *quant, const char *tensor, float low,
                                       float high)
{
    struct error e = {0};
    int r = quant_check_calibrated(quant, &e);
    if (r == 0 && !tensor)
        r = error_set(&e, STATUS_PARAM_INVALID, "no tensor");
    if (r == 0)
        r = quant_set_range(quant, tensor, low, high, &e);
    return quant_keep(r < 0 ? r : quant_lists_make(quant, &e), &e);
}

// The lists are made anew after failures too, since tries have changed what is planned.
static int quant_propose_checked(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                                 const rknnd_quant_goal *goal, rknnd_quant_proposal *proposal,
                                 struct error *e)
{
    rknnd_quant_samples s;
    rknnd_quant_goal g;
    rknnd_quant_proposal made = {0};
    int r = quant_take(&s, sizeof s, samples, "rknnd_quant_samples", e);
    if (r == 0)
        r = quant_take(&g, sizeof g, goal, "rknnd_quant_goal", e);
    if (r == 0 && (!s.n || !s.read || !(g.cosine > 0 && g.cosine <= 1) || !proposal ||
                   proposal->struct_size < 2 * sizeof(uint32_t)))
        r = error_set(e, STATUS_PARAM_INVALID,
                      "samples, a cosine above 0 and up to 1, and a proposal of a size are needed");
    if (r == 0 && g.type != RKNND_QUANT_FLOAT16 && g.type != RKNND_QUANT_INT16)
        r = error_set(e, STATUS_PARAM_INVALID, "layers can become float16 or int16, not %u",
                      g.type);
    if (r == 0)
        r = quant_chip_check(q->chip, (uint8_t)g.type, "the goal", e);
    if (r == 0)
        r = quant_propose(q, &s, &g, &made, e);
    int listed = quant_lists_make(q, r < 0 ? NULL : e);
    r = r < 0 ? r : listed;
    if (r < 0)
        return r;
    uint32_t size = made.struct_size = proposal->struct_size;
    memset(proposal, 0, size);
    memcpy(proposal, &made, size < sizeof made ? size : sizeof made);
    return 0;
}

QUANT_EXPORT int rknnd_quant_propose(rknnd_quant *quant, const rknnd_quant_samples *samples,
                                     const rknnd_quant_goal *goal, rknnd_quant_proposal *proposal)
{
    struct error e = {0};
    int r = quant_check_calibrated(quant, &e);
    if (r == 0)
        r = quant_propose_checked(quant, samples, goal, proposal, &e);
    return quant_keep(r, &e);
}

QUANT_EXPORT int rknnd_quant_write_table(rknnd_quant *quant, const char *path)
{
    struct error e = {0};
    int r = quant_check_calibrated(quant, &e);
    if (r == 0)
        r = path ? quant_check_output(quant, path, &e)
                 : error_set(&e, STATUS_PARAM_INVALID, "no path");
    if (r == 0)
        r = quant_hybrid_write(quant, path, &e);
    return quant_keep(r, &e);
}

QUANT_EXPORT int rknnd_quant_read_table(rknnd_quant *quant, const char *path)
{
    struct error e = {0};
    int r = quant_check_calibrated(quant, &e);
    if (r == 0)
        r = path ? quant_hybrid_read(quant, path, &e)
                 : error_set(&e, STATUS_PARAM_INVALID, "no path");
    return quant_keep(r < 0 ? r : quant_lists_make(quant, &e), &e);
}

// ---- what there is to know ----

QUANT_EXPORT int rknnd_quant_get_tensors(const rknnd_quant *quant, const rknnd_list **tensors)
{
    struct error e = {0};
    if (!quant || !tensors || !quant->tensors)
        return quant_keep(
            error_set(&e, STATUS_PARAM_INVALID, "tensors are known once it is calibrated"), &e);
    *tensors = quant->tensors;
    return 0;
}

QUANT_EXPORT int rknnd_quant_get_nodes(const rknnd_quant *quant, const rknnd_list **nodes)
{
    struct error e = {0};
    if (!quant || !nodes)
        return quant_keep(error_set(&e, STATUS_PARAM_INVALID, "no model"), &e);
    *nodes = quant->nodes;
    return 0;
}

QUANT_EXPORT int rknnd_quant_get_summary(const rknnd_quant *quant, rknnd_quant_summary *summary)
{
    struct error e = {0};
    if (!quant || !summary || summary->struct_size < 2 * sizeof(uint32_t))
        return quant_keep(error_set(&e, STATUS_PARAM_INVALID, "no model, or no summary of a size"),
                          &e);
    uint32_t size = summary->struct_size;
    rknnd_quant_summary ours = quant->summary;
    ours.struct_size = size;
    memset(summary, 0, size);
    memcpy(summary, &ours, size < sizeof ours ? size : sizeof ours);
    return 0;
}
