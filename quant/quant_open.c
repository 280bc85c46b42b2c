// Opening a model: it is read, made ready (prepare/) and planned; or it is written as it is, with
// its normalization and for more samples at once.
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/plan/quant_rewrite.h"
#include "quant/plan/quant_weights.h"
#include "quant/prepare/quant_batch.h"
#include "quant/prepare/quant_equalize.h"
#include "quant/prepare/quant_half.h"
#include "quant/prepare/quant_opset.h"
#include "quant/prepare/quant_simplify.h"

#define ALL_PASSES                                                                                 \
    (RKNND_QUANT_BATCH_NORM | RKNND_QUANT_ACTIVATIONS | RKNND_QUANT_EQUALIZATION |                 \
     RKNND_QUANT_BIAS_CORRECTION | RKNND_QUANT_COMPARISON)

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

// Only float inputs have a mean: others are indices, or lengths.
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
    if (r == 0 && n.n_values)
        r = quant_normalize_input(&q->model, &x, name, mean, deviation, n.n_values, e);
    quant_index_done(&x);
    return r;
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
    bool halves;
    int r = quant_plan_check_float(&q->model, e);
    if (r == 0)
        r = quant_widen_halves(&q->model, &halves, e);
    if (r == 0)
        r = quant_opset_raise(&q->model, e);
    if (r == 0)
        r = quant_simplify(&q->model, e);
    if (r == 0 && !(o->without & RKNND_QUANT_BATCH_NORM))
        r = quant_fold_batch_norms(&q->model, &q->summary.n_folded, e);
    // Where weights have a scale for each output, too: a tensor has one for all of its channels.
    if (r == 0 && !(o->without & RKNND_QUANT_EQUALIZATION))
        r = quant_equalize(&q->model, &q->summary.n_equalized, e);
    if (r == 0)
        r = quant_normalize(q, o->normalizations, e);
    return r < 0 ? r : quant_rewrite_prune(&q->model, e);
}

// A plan with other choices has these, too; the program's lists need not outlive its call.
static int quant_keep_choices(struct rknnd_quant *q, const rknnd_quant_options *o, struct error *e)
{
    size_t n = (size_t)o->n_int16s + o->n_floats;
    q->choices = quant_pool_take(&q->model.pool, n + 1, sizeof *q->choices);
    for (size_t i = 0; i < n && q->choices; i++) {
        const char *given = i < o->n_int16s ? o->int16s[i] : o->floats[i - o->n_int16s];
        const char *name = quant_model_present_name(&q->model, given);
        q->choices[i] = (struct quant_choice){.name = quant_pool_text(&q->model.pool, "%s", name),
                                              .bits = i < o->n_int16s ? 16 : 0};
        if (!q->choices[i].name)
            return error_no_memory(e, "names", n);
    }
    q->n_choices = (uint32_t)n;
    return q->choices ? quant_chip_check_choices(q->chip, q->choices, n, e)
                      : error_no_memory(e, "names", n);
}

static int quant_plan_all(struct rknnd_quant *q, const rknnd_quant_options *o, struct error *e)
{
    q->fuses_activations = !(o->without & RKNND_QUANT_ACTIVATIONS);
    int r = quant_index_make(&q->index, &q->model, e);
    if (r == 0)
        r = quant_keep_choices(q, o, e);
    const struct quant_plan_options options = {.fuse_activations = q->fuses_activations,
                                               .bits = q->store.bits,
                                               .choices = q->choices,
                                               .n_choices = q->n_choices};
    if (r == 0)
        r = quant_plan_make(&q->plan, &q->model, &q->index, &options, e);
    if (r == 0)
        r = quant_weights_check(&q->model, &q->index, &q->plan, e);
    return r < 0 ? r : quant_floats_begin(q, e);
}

// Whether the chip has these types is said before the model is read: it takes long for large ones.
static int quant_choose_types(struct rknnd_quant *q, const rknnd_quant_options *o, struct error *e)
{
    bool fixed_point = o->dtype == RKNND_QUANT_W16A16I_DFP;
    q->store = (struct quant_store){.bits = o->dtype == RKNND_QUANT_W8A8 ? 8 : 16,
                                    .symmetric = o->symmetric || fixed_point,
                                    .power_of_two = fixed_point};
    int r = o->target ? quant_chip_find(o->target, &q->chip, e) : 0;
    return r < 0 ? r
                 : quant_chip_check(q->chip, q->store.bits,
                                    q->store.bits == 8 ? "w8a8"
                                    : fixed_point      ? "w16a16i_dfp"
                                                       : "w16a16i",
                                    e);
}

static int quant_open(struct rknnd_quant *q, const char *path, const rknnd_quant_options *given,
                      struct error *e)
{
    rknnd_quant_options o;
    int r = quant_take(&o, sizeof o, given, "rknnd_quant_options", e);
    if (r == 0 && (o.algorithm > RKNND_QUANT_MMSE || (o.without & ~(uint32_t)ALL_PASSES)))
        r = error_set(e, STATUS_PARAM_INVALID, "algorithm %u, without %#x: there is no such one",
                      o.algorithm, o.without);
    if (r == 0 && o.dtype > RKNND_QUANT_W16A16I_DFP)
        r = error_set(e, STATUS_PARAM_INVALID, "dtype %u: there is no such one", o.dtype);
    if (r == 0)
        r = quant_choose_types(q, &o, e);
    if (r < 0)
        return r;
    q->algorithm = (enum quant_algorithm)o.algorithm;
    q->parts = o.external_data;
    q->per_layer = o.per_layer;
    q->corrects_bias = !(o.without & RKNND_QUANT_BIAS_CORRECTION);
    q->settles = q->algorithm == QUANT_ALGORITHM_MMSE && !(o.without & RKNND_QUANT_COMPARISON);
    if (!(q->path = strdup(path)))
        return error_no_memory(e, "a path", 0);
    r = quant_model_load(&q->model, path, e);
    if (r < 0)
        return r;
    r = quant_prepare(q, &o, e);
    if (r == 0)
        r = quant_plan_all(q, &o, e);
    if (r == 0)
        r = quant_lists_make(q, e);
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

// ---- without quantizing ----

// The model is not quantized here, so its operators may be any, and integers may be in it already.
static int quant_convert(struct rknnd_quant *q, const char *path, const rknnd_quant_options *given,
                         uint32_t batch, struct error *e)
{
    rknnd_quant_options o;
    int r = quant_take(&o, sizeof o, given, "rknnd_quant_options", e);
    if (r == 0)
        r = quant_model_load(&q->model, path, e);
    if (r < 0)
        return r;
    q->parts = o.external_data;
    bool halves;
    if (o.normalizations && o.normalizations->n)
        r = quant_widen_halves(&q->model, &halves, e);
    if (r == 0)
        r = quant_normalize(q, o.normalizations, e);
    if (r == 0 && batch > 1)
        r = quant_batch(&q->model, batch, e);
    return r < 0 ? error_prefix(e, "model %s", path) : 0;
}

QUANT_EXPORT int rknnd_quant_convert(const char *path, const rknnd_quant_options *options,
                                     uint32_t batch, const char *output)
{
    struct error e = {0};
    struct rknnd_quant q = {0};
    if (!path || !output)
        return quant_keep(error_set(&e, STATUS_PARAM_INVALID, "no path, or no output"), &e);
    int r = quant_convert(&q, path, options, batch, &e);
    if (r == 0)
        r = quant_model_save(&q.model, output, q.parts, &e);
    quant_model_done(&q.model);
    return quant_keep(r, &e);
}
