// The public functions: their order, and what they hand out.
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_calibrate.h"
#include "quant/model/quant_equalize.h"
#include "quant/model/quant_opset.h"
#include "quant/model/quant_simplify.h"
#include "quant/plan/quant_rewrite.h"

#define QUANT_EXPORT __attribute__((visibility("default")))
#define ALL_PASSES                                                                                 \
    (RKNND_QUANT_BATCH_NORM | RKNND_QUANT_ACTIVATIONS | RKNND_QUANT_EQUALIZATION |                 \
     RKNND_QUANT_BIAS_CORRECTION)

static _Thread_local struct error last_error;

QUANT_EXPORT const char *rknnd_quant_last_error(void)
{
    return last_error.text;
}

// The end of every function.
static int quant_keep(int r, const struct error *e)
{
    if (r < 0)
        last_error = *e;
    return r;
}

// ---- structs of programs ----

// `size` bytes of ours from what a program, perhaps of another version, has given. Fails if it sets
// what is not known here.
static int quant_take(void *ours, uint32_t size, const void *theirs, const char *what,
                      struct error *e)
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

// ---- what there is to know ----

static rknnd_list *quant_list_new(size_t n, size_t stride, struct error *e)
{
    rknnd_list *list = calloc(1, sizeof *list + n * stride);
    if (!list) {
        error_no_memory(e, "a list", n);
        return NULL;
    }
    *list = (rknnd_list){.struct_size = sizeof *list,
                         .n = (uint32_t)n,
                         .stride = (uint32_t)stride,
                         .items = list + 1};
    for (size_t i = 0; i < n; i++)
        *(uint32_t *)(void *)((char *)(list + 1) + i * stride) = (uint32_t)stride;
    return list;
}

static void quant_fill_tensor(const struct rknnd_quant *q, uint32_t i, rknnd_quant_tensor *t)
{
    const struct quant_edge *edge = &q->index.edges[i];
    const struct quant_observer *o = &q->seen[i];
    t->group = q->plan.places[i].group;
    t->name = edge->name;
    t->node = edge->producer < 0 ? "" : quant_node_name(q->model.graph->node[edge->producer]);
    t->scale = q->forms[t->group].scale;
    t->zp = q->forms[t->group].zp;
    t->low = q->ranges[t->group].low;
    t->high = q->ranges[t->group].high;
    t->min = 1;
    if (!o->bins)
        return;
    t->min = o->min;
    t->max = o->max;
    t->n_bins = QUANT_BINS;
    t->bins = o->bins;
    t->bin_width = __builtin_ldexpf(1, o->exponent);
    t->error = quant_range_error(o, q->forms[t->group]);
}

static int quant_list_tensors(struct rknnd_quant *q, struct error *e)
{
    q->tensors = quant_list_new(q->summary.n_tensors, sizeof(rknnd_quant_tensor), e);
    rknnd_quant_tensor *at = q->tensors ? (rknnd_quant_tensor *)(q->tensors + 1) : NULL;
    for (uint32_t i = 0; i < q->index.n && at; i++)
        if (q->plan.places[i].quantized)
            quant_fill_tensor(q, i, at++);
    return q->tensors ? 0 : e->code;
}

static int quant_list_nodes(struct rknnd_quant *q, struct error *e)
{
    q->nodes = quant_list_new(q->plan.n_nodes, sizeof(rknnd_quant_node), e);
    rknnd_quant_node *at = q->nodes ? (rknnd_quant_node *)(q->nodes + 1) : NULL;
    for (uint32_t i = 0; i < q->plan.n_nodes && at; i++, at++) {
        const Quant__Node *n = q->model.graph->node[i];
        at->quantized = q->plan.kinds[i] != QUANT_NODE_FLOAT;
        at->name = quant_node_name(n);
        at->op = quant_text(n->op_type);
        at->output = quant_output(n, 0);
        at->reason = q->plan.reasons[i] ? q->plan.reasons[i] : "";
    }
    return q->nodes ? 0 : e->code;
}

// ---- opening ----

static const char *quant_first_input(const struct quant_model *m)
{
    for (size_t i = 0; i < m->graph->n_input; i++) {
        const char *name = quant_text(m->graph->input[i]->name);
        bool constant = false;
        for (size_t k = 0; k < m->graph->n_initializer; k++)
            constant |= strcmp(name, quant_text(m->graph->initializer[k]->name)) == 0;
        if (!constant)
            return name;
    }
    return "";
}

static int quant_normalize_one(struct rknnd_quant *q, const rknnd_quant_normalization *given,
                               struct error *e)
{
    rknnd_quant_normalization n;
    int r = quant_take(&n, sizeof n, given, "a normalization", e);
    if (r < 0)
        return r;
    const char *name = n.input ? n.input : quant_first_input(&q->model);
    cleanup(free_p) float *mean = calloc(n.n_values + 1, sizeof *mean);
    cleanup(free_p) float *deviation = calloc(n.n_values + 1, sizeof *deviation);
    if (!mean || !deviation)
        return error_no_memory(e, "a normalization", n.n_values);
    for (uint32_t i = 0; i < n.n_values; i++) {
        mean[i] = n.mean ? n.mean[i] : 0;
        deviation[i] = n.deviation ? n.deviation[i] : 1;
        if (!(deviation[i] > 0))
            return error_set(e, STATUS_PARAM_INVALID, "input %s: a deviation of %g", name,
                             (double)deviation[i]);
    }
    struct quant_index x;
    r = quant_index_make(&x, &q->model, e);
    const struct quant_edge *edge = r == 0 ? quant_index_find(&x, name) : NULL;
    if (r == 0 && (!edge || !edge->is_input || edge->type != QUANT_FLOAT))
        r = error_set(e, STATUS_PARAM_INVALID, "the model has no float input \"%s\"", name);
    quant_index_done(&x);
    return r < 0 || !n.n_values
               ? r
               : quant_normalize_input(&q->model, name, mean, deviation, n.n_values, e);
}

static int quant_normalize(struct rknnd_quant *q, const rknnd_list *list, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; list && i < list->n && r == 0; i++)
        r = quant_normalize_one(q, rknnd_quant_normalization_at(list, i), e);
    return r;
}

static int quant_prepare(struct rknnd_quant *q, const rknnd_quant_options *o, struct error *e)
{
    int r = quant_opset_raise(&q->model, e);
    if (r == 0)
        r = quant_simplify(&q->model, e);
    if (r == 0 && !(o->without & RKNND_QUANT_BATCH_NORM))
        r = quant_fold_batch_norms(&q->model, &q->summary.n_folded, e);
    // Scales of channels do that alone, and tensors stay comparable to the float model's.
    if (r == 0 && o->per_layer && !(o->without & RKNND_QUANT_EQUALIZATION))
        r = quant_equalize(&q->model, &q->summary.n_equalized, e);
    if (r == 0)
        r = quant_normalize(q, o->normalizations, e);
    return r < 0 ? r : quant_rewrite_prune(&q->model, e);
}

static int quant_plan_all(struct rknnd_quant *q, const rknnd_quant_options *o, struct error *e)
{
    struct quant_plan_options options = {
        .fuse_activations = !(o->without & RKNND_QUANT_ACTIVATIONS),
        .floats = o->floats,
        .n_floats = o->n_floats,
    };
    int r = quant_index_make(&q->index, &q->model, e);
    if (r == 0)
        r = quant_plan_make(&q->plan, &q->model, &q->index, &options, e);
    for (uint32_t i = 0; i < q->plan.n_nodes && r == 0; i++)
        q->summary.n_quantized += q->plan.kinds[i] != QUANT_NODE_FLOAT;
    for (uint32_t i = 0; i < q->plan.n_edges && r == 0; i++)
        q->summary.n_tensors += q->plan.places[i].quantized;
    q->summary.n_nodes = q->plan.n_nodes;
    return r;
}

static int quant_open(struct rknnd_quant *q, const char *path, const rknnd_quant_options *given,
                      struct error *e)
{
    rknnd_quant_options o;
    int r = quant_take(&o, sizeof o, given, "rknnd_quant_options", e);
    if (r == 0 && (o.algorithm > RKNND_QUANT_MMSE || (o.without & ~(uint32_t)ALL_PASSES)))
        r = error_set(e, STATUS_PARAM_INVALID, "algorithm %u, without %#x: there is no such one",
                      o.algorithm, o.without);
    if (r < 0)
        return r;
    q->algorithm = (enum quant_algorithm)o.algorithm;
    q->per_layer = o.per_layer;
    q->symmetric = o.symmetric;
    q->corrects_bias = !(o.without & RKNND_QUANT_BIAS_CORRECTION);
    r = quant_model_load(&q->model, path, e);
    if (r < 0)
        return r;
    r = quant_prepare(q, &o, e);
    if (r == 0)
        r = quant_plan_all(q, &o, e);
    if (r == 0)
        r = quant_list_nodes(q, e);
    return r < 0 ? error_prefix(e, "model %s", path) : 0;
}

QUANT_EXPORT int rknnd_quant_open(const char *path, const rknnd_quant_options *options,
                                  rknnd_quant **quant)
{
    struct error e = {0};
    struct rknnd_quant *q = path && quant ? calloc(1, sizeof *q) : NULL;
    if (!path || !quant)
        return quant_keep(error_set(&e, STATUS_PARAM_INVALID, "no path, or nowhere to put it"), &e);
    int r = q ? quant_open(q, path, options, &e) : error_no_memory(&e, "the model", 0);
    if (r == 0)
        *quant = q;
    else
        rknnd_quant_free(q);
    return quant_keep(r, &e);
}

static void quant_observers_free(struct quant_observer *list, uint32_t n)
{
    for (uint32_t i = 0; list && i < n; i++)
        quant_observer_done(&list[i]);
    free(list);
}

static void quant_forget(struct rknnd_quant *q)
{
    quant_observers_free(q->seen, q->index.n);
    quant_observers_free(q->groups, q->index.n);
    free(q->ranges);
    free(q->forms);
    free(q->tensors);
    q->seen = q->groups = NULL;
    q->ranges = NULL;
    q->forms = NULL;
    q->tensors = NULL;
    q->calibrated = false;
}

QUANT_EXPORT void rknnd_quant_free(rknnd_quant *q)
{
    if (!q)
        return;
    quant_forget(q);
    free(q->nodes);
    quant_plan_done(&q->plan);
    quant_index_done(&q->index);
    quant_model_done(&q->model);
    free(q);
}

// ---- calibrating ----

// What all tensors of a group saw, and its range.
static int quant_choose(struct rknnd_quant *q, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < q->index.n && r == 0; i++) {
        struct quant_observer *group = &q->groups[q->plan.places[i].group];
        if (!q->seen[i].bins)
            continue;
        if (!group->bins)
            r = quant_observer_init(group, 0, e);
        if (r == 0)
            quant_observer_merge(group, &q->seen[i]);
        q->summary.n_constant_inputs +=
            q->index.edges[i].is_input && q->seen[i].min == q->seen[i].max;
    }
    for (uint32_t i = 0; i < q->index.n && r == 0; i++) {
        if (!q->groups[i].bins)
            continue;
        q->ranges[i] = quant_range_choose(&q->groups[i], q->algorithm, q->symmetric);
        q->forms[i] = quant_form_of_range(q->ranges[i], q->symmetric);
    }
    return r;
}

static int quant_calibrate_all(struct rknnd_quant *q, const rknnd_quant_samples *given,
                               struct error *e)
{
    rknnd_quant_samples s;
    int r = quant_take(&s, sizeof s, given, "rknnd_quant_samples", e);
    if (r == 0 && (!s.n || !s.read))
        r = error_set(e, STATUS_PARAM_INVALID, "there are no samples");
    if (r == 0 && q->written)
        r = error_set(e, STATUS_PARAM_INVALID, "the model is written already");
    if (r < 0)
        return r;
    quant_forget(q);
    q->summary.n_constant_inputs = 0;
    q->seen = calloc(q->index.n + 1, sizeof *q->seen);
    q->groups = calloc(q->index.n + 1, sizeof *q->groups);
    q->ranges = calloc(q->index.n + 1, sizeof *q->ranges);
    q->forms = calloc(q->index.n + 1, sizeof *q->forms);
    if (!q->seen || !q->groups || !q->ranges || !q->forms)
        return error_no_memory(e, "the calibration", q->index.n);
    r = quant_calibrate(q, &s, &q->summary.n_resumed, e);
    if (r == 0)
        r = quant_choose(q, e);
    if (r == 0)
        r = quant_list_tensors(q, e);
    q->calibrated = r == 0;
    return r;
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
        const struct quant_observer *o = &q->seen[i];
        rows[i] = o->n_channels ? at : NULL;
        n[i] = o->n_channels;
        for (uint32_t c = 0; c < o->n_channels; c++)
            *at++ = o->n ? o->sums[c] / ((double)o->n / o->n_channels) : 0;
    }
    return 0;
}

static int quant_write(struct rknnd_quant *q, const char *path, struct error *e)
{
    cleanup(free_p) const double **means = NULL;
    cleanup(free_p) uint32_t *n_means = NULL;
    cleanup(free_p) struct quant_form *forms = calloc(q->index.n + 1, sizeof *forms);
    if (!q->calibrated || q->written)
        return error_set(e, STATUS_PARAM_INVALID,
                         q->written ? "it is written already" : "it is not calibrated");
    if (!forms)
        return error_no_memory(e, "the model", 0);
    int r = quant_means(q, &means, &n_means, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < q->index.n; i++)
        forms[i] = q->forms[q->plan.places[i].group];
    const struct quant_rewrite_plan p = {
        .plan = &q->plan,
        .index = &q->index,
        .forms = forms,
        .means = q->corrects_bias ? means : NULL,
        .n_means = n_means,
        .weights = {.per_channel = !q->per_layer, .search = q->algorithm == QUANT_ALGORITHM_MMSE},
    };
    q->written = true;
    r = quant_rewrite(&q->model, &p, e);
    return r < 0 ? r : quant_model_save(&q->model, path, e);
}

QUANT_EXPORT int rknnd_quant_write(rknnd_quant *quant, const char *path)
{
    struct error e = {0};
    int r = quant && path ? quant_write(quant, path, &e)
                          : error_set(&e, STATUS_PARAM_INVALID, "no model, or no path");
    return quant_keep(r, &e);
}

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
