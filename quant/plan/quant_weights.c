// A weight is seen as [outer, outputs, inner]: for each output, `outer` runs of `inner` elements.
#include "quant/plan/quant_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/each_cpu.h"
#include "quant/calibrate/quant_mmse.h"
#include "quant/model/quant_constant.h"
#include "quant/quant_parallel.h"

#define MOST_BIAS 1073741824.0 // 2^30: room for what is added to it

#define FEW   65536              // elements: a thread would take longer to start
#define PARTS 16                 // of outputs, which threads take
#define RINT  6755399441055744.0 // 1.5 * 2^52: a sum with it has no room for a fraction

struct weighing {
    struct quant_weights *w;
    const struct quant_weight_options *options;
    size_t outer, inner;
    const float *values, *bias; // real ones; bias NULL: without
    float x_scale;
    const Quant__Node *node;
    const Quant__Tensor *weight;
    const double *means; // of the input's channels
    size_t n_means;
    double *shifts; // of each output, that rounding its weights makes
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
    if (g->bias && g->x_scale > 0 && g->options->store.bits == 8)
        least =
            fmaxf(least, (float)(fabs((double)g->bias[output]) / (double)g->x_scale / MOST_BIAS));
    return fmaxf(scale, least);
}

// ---- parts of outputs ----

// Outputs `from` to `to` - 1. From several threads.
typedef int weighing_part(const struct weighing *g, size_t from, size_t to, struct error *e);

struct weighing_parts {
    const struct weighing *g;
    weighing_part *part;
    uint32_t n;
};

static int weighing_one_part(void *user, uint32_t i, struct error *e)
{
    const struct weighing_parts *p = user;
    size_t n = p->g->w->n_outputs;
    return p->part(p->g, n * i / p->n, n * (i + 1) / p->n, e);
}

static int weighing_each(const struct weighing *g, weighing_part *part, struct error *e)
{
    struct weighing_parts p = {.g = g, .part = part, .n = PARTS};
    if (g->options->n_threads < 2 || g->w->n < FEW)
        return part(g, 0, g->w->n_outputs, e);
    return quant_parallel(g->options->n_threads, p.n, weighing_one_part, &p, e);
}

// ---- scales ----

// Of each output, before its bias is looked at.
static int weighing_search_outputs(const struct weighing *g, size_t from, size_t to,
                                   struct error *e)
{
    size_t each = g->outer * g->inner;
    cleanup(free_p) float *own = malloc(each ? each * sizeof *own : 1);
    if (!own)
        return error_no_memory(e, "a weight", each);
    for (size_t o = from; o < to; o++) {
        for (size_t k = 0; k < g->outer; k++)
            memcpy(own + k * g->inner, g->values + weighing_at(g, k, o), g->inner * sizeof *own);
        g->w->scales[o] = quant_weight_scale(own, each, g->options->store, g->options->search);
    }
    return 0;
}

static int weighing_search(const struct weighing *g, struct error *e)
{
    struct quant_weights *w = g->w;
    if (w->n_scales == w->n_outputs && g->options->per_channel)
        return weighing_each(g, weighing_search_outputs, e);
    w->scales[0] = quant_weight_scale(g->values, w->n, g->options->store, g->options->search);
    return 0;
}

static int weighing_scales(const struct weighing *g, struct error *e)
{
    struct quant_weights *w = g->w;
    const struct quant_weight_options *options = g->options;
    bool known = options->search && options->searched && options->store.bits == 8;
    if (known)
        memcpy(w->scales, options->searched, w->n_scales * sizeof *w->scales);
    int r = known ? 0 : weighing_search(g, e);
    size_t n = options->per_channel ? w->n_outputs : w->n_bias;
    for (size_t o = 0; o < n && r == 0; o++) {
        float *scale = &w->scales[options->per_channel ? o : 0];
        *scale = weighing_scale(g, *scale, o);
    }
    return r;
}

// Quotients are cut off first, so that their sums with RINT are rounded as rint() does it, but many
// at a time.
FOR_EACH_CPU static void weighing_round_row(const float *from, int16_t *to, size_t n, double scale,
                                            double most)
{
    for (size_t i = 0; i < n; i++) {
        double q = (double)from[i] / scale;
        q = q < -most ? -most : q;
        q = q > most ? most : q;
        to[i] = (int16_t)(int32_t)(q + RINT - RINT);
    }
}

static int weighing_round(const struct weighing *g, size_t from, size_t to, struct error *e)
{
    double most = (1 << (g->options->store.bits - 1)) - 1;
    (void)e;
    for (size_t k = 0; k < g->outer; k++)
        for (size_t o = from; o < to; o++) {
            size_t at = weighing_at(g, k, o);
            weighing_round_row(g->values + at, g->w->weight + at, g->inner,
                               (double)g->w->scales[g->w->n_scales == 1 ? 0 : o], most);
        }
    return 0;
}

// What the mean input gives with rounded weights, less what it gives with real ones. Of a Conv:
// [outputs, inputs of the group, window]; of a Gemm or MatMul [inputs, outputs] or transposed.
static double weighing_shift(const struct weighing *g, size_t o)
{
    bool conv = quant_is(g->node, "Conv");
    size_t inputs = conv ? (size_t)g->weight->dims[1] : g->outer * g->inner;
    size_t window = conv ? g->inner / inputs : 1, first = 0;
    if (conv && g->n_means > inputs) {
        size_t groups = g->n_means / inputs;
        first = o / (g->w->n_outputs / groups) * inputs;
    }
    double scale = (double)g->w->scales[g->w->n_scales == 1 ? 0 : o], sum = 0;
    for (size_t c = 0; c < inputs; c++)
        for (size_t k = 0; k < window; k++) {
            size_t i = g->outer > 1 ? weighing_at(g, c, o) : weighing_at(g, 0, o) + c * window + k;
            sum += (g->w->weight[i] * scale - (double)g->values[i]) * g->means[first + c];
        }
    return sum;
}

static int weighing_shifts(const struct weighing *g, size_t from, size_t to, struct error *e)
{
    (void)e;
    for (size_t o = from; o < to; o++)
        g->shifts[o] = weighing_shift(g, o);
    return 0;
}

// Whether there is a mean for each input channel. A MatMul has no bias to correct.
static bool weighing_has_means(const struct weighing *g)
{
    if (quant_is(g->node, "Conv")) {
        size_t groups = (size_t)quant_attr_int(g->node, "group", 1);
        return groups && g->w->n_outputs % groups == 0 &&
               g->n_means == groups * (size_t)g->weight->dims[1];
    }
    return quant_is(g->node, "Gemm") && g->n_means == g->outer * g->inner;
}

// Of a ConvTranspose the weight has the outputs of one group.
static size_t weighing_groups(const Quant__Node *n)
{
    return quant_is(n, "ConvTranspose") ? (size_t)quant_attr_int(n, "group", 1) : 1;
}

static int weighing_bias(struct weighing *g, struct error *e)
{
    struct quant_weights *w = g->w;
    bool corrected = g->means && weighing_has_means(g);
    if (!g->bias && !corrected)
        return 0;
    size_t count = w->n_bias;
    w->bias = malloc(count * sizeof *w->bias);
    w->bias_scales = malloc(w->n_scales * sizeof *w->bias_scales);
    g->shifts = calloc(count + 1, sizeof *g->shifts);
    if (!w->bias || !w->bias_scales || !g->shifts)
        return error_no_memory(e, "a bias", count);
    int r = corrected ? weighing_each(g, weighing_shifts, e) : 0;
    for (size_t i = 0; i < w->n_scales; i++)
        w->bias_scales[i] = g->x_scale * w->scales[i];
    // Products of 16 bits have so fine a unit that biases often do not fit. They are added as real
    // numbers there, so they can have one of their own.
    for (size_t o = 0; o < count && g->bias && g->options->store.bits > 8; o++) {
        float *scale = &w->bias_scales[o % w->n_scales];
        *scale = fmaxf(*scale, (float)(fabs((double)g->bias[o]) / MOST_BIAS));
    }
    for (size_t o = 0; o < count; o++) {
        double real = (g->bias ? (double)g->bias[o] : 0) - g->shifts[o];
        double stored = rint(real / (double)w->bias_scales[o % w->n_scales]);
        w->bias[o] = (int32_t)fmin(fmax(stored, -2147483647.0), 2147483647.0);
    }
    return r;
}

// How the weight lies, and its real elements.
static int weighing_begin(struct weighing *g, const struct quant_index *x, const Quant__Node *n,
                          struct quant_weight_options *options, struct error *e)
{
    const Quant__Tensor *t = quant_index_weight(x, n, 1);
    struct quant_weights *w = g->w;
    *w = (struct quant_weights){.n = quant_constant_count(t), .axis = quant_plan_axis(n, t)};
    options->per_channel &= weighing_groups(n) == 1;
    g->options = options;
    g->node = n;
    g->weight = t;
    w->n_outputs = (size_t)t->dims[w->axis];
    w->n_bias = w->n_outputs * weighing_groups(n);
    g->outer = 1;
    for (uint32_t i = 0; i < w->axis; i++)
        g->outer *= (size_t)t->dims[i];
    g->inner = w->n / g->outer / w->n_outputs;
    w->n_scales = options->per_channel ? w->n_outputs : 1;
    int r = quant_constant_floats(t, &g->values, e); // and so its elements are there
    w->scales = r == 0 ? calloc(w->n_scales, sizeof *w->scales) : NULL;
    return r == 0 && !w->scales ? error_no_memory(e, "a weight", w->n) : r;
}

int quant_weights_search(const struct quant_index *x, const Quant__Node *n,
                         const struct quant_weight_options *options, float **ret, struct error *e)
{
    struct quant_weights w;
    struct weighing g = {.w = &w};
    struct quant_weight_options own = *options;
    int r = weighing_begin(&g, x, n, &own, e);
    if (r == 0)
        r = weighing_search(&g, e);
    *ret = r == 0 ? w.scales : NULL;
    if (r == 0)
        w.scales = NULL;
    quant_weights_done(&w);
    return r;
}

int quant_weights_make(struct quant_weights *w, const struct quant_index *x, const Quant__Node *n,
                       float x_scale, const struct quant_weight_options *options,
                       const double *means, size_t n_means, struct error *e)
{
    const Quant__Tensor *b = quant_index_weight(x, n, 2);
    struct quant_weight_options own = *options;
    struct weighing g = {.w = w, .x_scale = x_scale, .means = means, .n_means = n_means};
    int r = weighing_begin(&g, x, n, &own, e);
    if (r == 0 && b)
        r = quant_constant_floats(b, &g.bias, e);
    w->weight = r == 0 ? malloc(w->n * sizeof *w->weight) : NULL;
    if (r == 0 && !w->weight)
        r = error_no_memory(e, "a weight", w->n);
    if (r == 0)
        r = weighing_scales(&g, e);
    if (r == 0)
        r = weighing_each(&g, weighing_round, e);
    if (r == 0)
        r = weighing_bias(&g, e);
    free(g.shifts);
    return r;
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
            const float *values;
            const Quant__Tensor *t = quant_index_weight(x, n, k);
            r = t ? quant_constant_floats(t, &values, e) : 0;
        }
        if (r < 0)
            error_prefix(e, "node %s", quant_node_name(n));
    }
    return r;
}
