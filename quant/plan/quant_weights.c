// A weight is seen as [outer, outputs, inner]: for each output, `outer` runs of `inner` elements.
#include "quant/plan/quant_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_mmse.h"
#include "quant/model/quant_constant.h"

#define MOST_BIAS 1073741824.0 // 2^30: room for what is added to it

struct weighing {
    struct quant_weights *w;
    struct quant_store store;
    size_t outer, inner;
    float *values, *bias; // real ones; bias NULL: without
    float x_scale;
};

void quant_weights_done(struct quant_weights *w)
{
    free(w->weight);
    free(w->scales);
    free(w->bias);
    free(w->bias_scales);
    *w = (struct quant_weights){0};
}

static size_t weighing_at(const struct weighing *g, size_t outer, size_t output)
{
    return (outer * g->w->n_outputs + output) * g->inner;
}

// Scales grow where a bias would not fit 32 bits.
static float weighing_scale(const struct weighing *g, float scale, size_t output)
{
    float least = 1e-12F;
    if (g->bias && g->x_scale > 0 && g->store.bits == 8)
        least =
            fmaxf(least, (float)(fabs((double)g->bias[output]) / (double)g->x_scale / MOST_BIAS));
    return fmaxf(scale, least);
}

static int weighing_scales(const struct weighing *g, const struct quant_weight_options *options,
                           struct error *e)
{
    struct quant_weights *w = g->w;
    size_t each = g->outer * g->inner;
    if (!options->per_channel) {
        w->scales[0] = quant_weight_scale(g->values, w->n, g->store, options->search);
        for (size_t o = 0; o < w->n_bias; o++)
            w->scales[0] = weighing_scale(g, w->scales[0], o);
        return 0;
    }
    cleanup(free_p) float *own = malloc(each ? each * sizeof *own : 1);
    if (!own)
        return error_no_memory(e, "a weight", each);
    for (size_t o = 0; o < w->n_outputs; o++) {
        for (size_t k = 0; k < g->outer; k++)
            memcpy(own + k * g->inner, g->values + weighing_at(g, k, o), g->inner * sizeof *own);
        w->scales[o] =
            weighing_scale(g, quant_weight_scale(own, each, g->store, options->search), o);
    }
    return 0;
}

static void weighing_round(const struct weighing *g)
{
    double most = (1 << (g->store.bits - 1)) - 1;
    for (size_t k = 0; k < g->outer; k++)
        for (size_t o = 0; o < g->w->n_outputs; o++) {
            double scale = (double)g->w->scales[g->w->n_scales == 1 ? 0 : o];
            size_t at = weighing_at(g, k, o);
            for (size_t i = at; i < at + g->inner; i++)
                g->w->weight[i] =
                    (int16_t)fmin(fmax(rint((double)g->values[i] / scale), -most), most);
        }
}

// What the mean input gives with rounded weights, less what it gives with real ones. Of a Conv:
// [outputs, inputs of the group, window]; of a Gemm or MatMul [inputs, outputs] or transposed.
static double weighing_shift(const struct weighing *g, const Quant__Node *n, const Quant__Tensor *t,
                             size_t o, const double *means, size_t n_means)
{
    bool conv = quant_is(n, "Conv");
    size_t inputs = conv ? (size_t)t->dims[1] : g->outer * g->inner;
    size_t window = conv ? g->inner / inputs : 1, first = 0;
    if (conv && n_means > inputs) {
        size_t groups = n_means / inputs;
        first = o / (g->w->n_outputs / groups) * inputs;
    }
    double scale = (double)g->w->scales[g->w->n_scales == 1 ? 0 : o], sum = 0;
    for (size_t c = 0; c < inputs; c++)
        for (size_t k = 0; k < window; k++) {
            size_t i = g->outer > 1 ? weighing_at(g, c, o) : weighing_at(g, 0, o) + c * window + k;
            sum += (g->w->weight[i] * scale - (double)g->values[i]) * means[first + c];
        }
    return sum;
}

// Whether there is a mean for each input channel.
static bool weighing_has_means(const struct weighing *g, const Quant__Node *n,
                               const Quant__Tensor *t, size_t n_means)
{
    if (quant_is(n, "Conv")) {
        size_t groups = (size_t)quant_attr_int(n, "group", 1);
        return groups && g->w->n_outputs % groups == 0 && n_means == groups * (size_t)t->dims[1];
    }
    return (quant_is(n, "Gemm") || quant_is(n, "MatMul")) && n_means == g->outer * g->inner;
}

// Of a ConvTranspose the weight has the outputs of one group.
static size_t weighing_groups(const Quant__Node *n)
{
    return quant_is(n, "ConvTranspose") ? (size_t)quant_attr_int(n, "group", 1) : 1;
}

static int weighing_bias(const struct weighing *g, const Quant__Node *n, const Quant__Tensor *t,
                         const double *means, size_t n_means, struct error *e)
{
    struct quant_weights *w = g->w;
    bool corrected = means && weighing_has_means(g, n, t, n_means) && !quant_is(n, "MatMul");
    if (!g->bias && !corrected)
        return 0;
    size_t count = w->n_bias;
    w->bias = malloc(count * sizeof *w->bias);
    w->bias_scales = malloc(w->n_scales * sizeof *w->bias_scales);
    if (!w->bias || !w->bias_scales)
        return error_no_memory(e, "a bias", count);
    for (size_t i = 0; i < w->n_scales; i++)
        w->bias_scales[i] = g->x_scale * w->scales[i];
    // Products of 16 bits have so fine a unit that biases often do not fit. They are added as real
    // numbers there, so they can have one of their own.
    for (size_t o = 0; o < count && g->bias && g->store.bits > 8; o++) {
        float *scale = &w->bias_scales[o % w->n_scales];
        *scale = fmaxf(*scale, (float)(fabs((double)g->bias[o]) / MOST_BIAS));
    }
    for (size_t o = 0; o < count; o++) {
        double real = g->bias ? (double)g->bias[o] : 0;
        if (corrected)
            real -= weighing_shift(g, n, t, o, means, n_means);
        double stored = rint(real / (double)w->bias_scales[o % w->n_scales]);
        w->bias[o] = (int32_t)fmin(fmax(stored, -2147483647.0), 2147483647.0);
    }
    return 0;
}

int quant_weights_make(struct quant_weights *w, const struct quant_index *x, const Quant__Node *n,
                       float x_scale, const struct quant_weight_options *options,
                       const double *means, size_t n_means, struct error *e)
{
    const Quant__Tensor *t = quant_index_weight(x, n, 1), *b = quant_index_weight(x, n, 2);
    struct quant_weight_options own = *options;
    cleanup(free_p) float *values = NULL, *bias = NULL;
    uint32_t axis = quant_plan_axis(n, t);
    *w = (struct quant_weights){.n = quant_constant_count(t), .axis = axis};
    own.per_channel &= weighing_groups(n) == 1;
    w->n_outputs = (size_t)t->dims[axis];
    w->n_bias = w->n_outputs * weighing_groups(n);
    struct weighing g = {.w = w, .store = own.store, .outer = 1, .x_scale = x_scale};
    for (uint32_t i = 0; i < axis; i++)
        g.outer *= (size_t)t->dims[i];
    g.inner = w->n / g.outer / w->n_outputs;
    w->n_scales = own.per_channel ? w->n_outputs : 1;
    int r = quant_constant_floats(t, &values, e); // and so its elements are there
    if (r == 0 && b)
        r = quant_constant_floats(b, &bias, e);
    w->weight = r == 0 ? malloc(w->n * sizeof *w->weight) : NULL;
    w->scales = r == 0 ? calloc(w->n_scales, sizeof *w->scales) : NULL;
    if (r == 0 && (!w->weight || !w->scales))
        r = error_no_memory(e, "a weight", w->n);
    g.values = values;
    g.bias = bias;
    if (r == 0)
        r = weighing_scales(&g, &own, e);
    if (r < 0)
        return r;
    weighing_round(&g);
    return weighing_bias(&g, n, t, means, n_means, e);
}

// The bounds of a Clip may be infinite.
static bool weights_are_stored(const struct quant_plan *p, const Quant__Node *n, size_t node)
{
    return p->kinds[node] == QUANT_NODE_PRODUCT ||
           (p->kinds[node] == QUANT_NODE_VALUE && (quant_is(n, "Add") || quant_is(n, "Mul")));
}

int quant_weights_check(const struct quant_model *m, const struct quant_index *x,
                        const struct quant_plan *p, struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < m->graph->n_node && r == 0; i++) {
        const Quant__Node *n = m->graph->node[i];
        for (size_t k = 0; k < n->n_input && r == 0 && weights_are_stored(p, n, i); k++) {
            cleanup(free_p) float *values = NULL;
            const Quant__Tensor *t = quant_index_weight(x, n, k);
            r = t ? quant_constant_floats(t, &values, e) : 0;
        }
        if (r < 0)
            error_prefix(e, "node %s", quant_node_name(n));
    }
    return r;
}
