// With r1 and r2 the largest weights of a channel on both sides, the channel is divided by
// s = sqrt(r1 * r2) / r2 in the first product and multiplied by it in the second: both then reach
// sqrt(r1 * r2) (Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
// Correction, 2019, equation 11). Pairs in a chain pull at each other, so all are done some times.
#include "quant/prepare/quant_equalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"

#define SWEEPS       10
#define LEAST_SPREAD 2.0 // of a pair's factors: less is less than a bit, and names stay as they are
#define MOST_FACTOR  1e3 // of a channel and pair
#define DEVIATIONS   3   // that outputs reach as a rule

// A weight [outputs, inputs of the group, window], in memory that may be written.
struct equal_weight {
    float *values;
    size_t outputs, inputs, window;
    bool depthwise;
};

struct equal_pair {
    struct equal_weight first, second;
    float *bias;                  // of the first; NULL: none
    const Quant__Node *from, *to; // what lies between them has factors
};

struct equalizing {
    struct quant_model *m;
    struct quant_index x;
    struct equal_pair *pairs;
    uint32_t n;
    struct error *e;
};

// A constant's elements as they may be changed: in raw_data, read by one node only. NULL: no.
static float *equal_own(const struct equalizing *q, const Quant__Node *n, size_t input)
{
    const struct quant_edge *edge = quant_index_find(&q->x, quant_input(n, input));
    Quant__Tensor *t = quant_index_weight(&q->x, n, input);
    if (!t || edge->n_uses != 1 || edge->is_output || edge->producer >= 0)
        return NULL;
    size_t count = quant_constant_count(t);
    if (!t->has_raw_data && t->n_float_data == count && count) {
        t->raw_data.data = quant_pool_take(&q->m->pool, count, sizeof(float));
        if (!t->raw_data.data)
            return NULL;
        memcpy(t->raw_data.data, t->float_data, count * sizeof(float));
        t->raw_data.len = count * sizeof(float);
        t->has_raw_data = true;
        t->n_float_data = 0;
    }
    if (!count || t->raw_data.len != count * sizeof(float))
        return NULL;
    return (float *)(void *)t->raw_data.data; // pools and mappings align
}

// Weights of a plain or a depthwise Conv. Of other groups an input channel belongs to some outputs
// only, and one factor for a channel would not do. What is not finite is left for others to refuse.
static bool equal_take_weight(const struct equalizing *q, const Quant__Node *n,
                              struct equal_weight *w)
{
    const Quant__Tensor *t = quant_is(n, "Conv") ? quant_index_weight(&q->x, n, 1) : NULL;
    if (!t || t->n_dims < 3 || t->dims[0] <= 0 || t->dims[1] <= 0)
        return false;
    size_t groups = (size_t)quant_attr_int(n, "group", 1);
    *w = (struct equal_weight){.values = equal_own(q, n, 1),
                               .outputs = (size_t)t->dims[0],
                               .inputs = (size_t)t->dims[1],
                               .depthwise = groups > 1};
    if (!w->values || (groups > 1 && (w->inputs != 1 || groups != w->outputs)))
        return false;
    w->window = quant_constant_count(t) / w->outputs / w->inputs;
    for (size_t i = 0; i < w->outputs * w->inputs * w->window; i++)
        if (!isfinite(w->values[i]))
            return false;
    return true;
}

// Lets positive factors through: f(s x) = s f(x).
static bool equal_is_homogeneous(const Quant__Node *n)
{
    return quant_is(n, "Relu") || quant_is(n, "LeakyRelu");
}

// The product behind a Conv, past an activation; NULL: there is none alone.
static const Quant__Node *equal_next(const struct equalizing *q, const Quant__Node *n)
{
    for (int i = 0; i < 2; i++) {
        const struct quant_edge *out = quant_index_find(&q->x, quant_output(n, 0));
        int32_t reader = out ? quant_index_only_reader(&q->x, out) : -1;
        if (reader < 0 || quant_index_use(&q->x, out, 0)->input != 0)
            return NULL;
        n = q->m->graph->node[reader];
        if (!equal_is_homogeneous(n))
            return quant_is(n, "Conv") ? n : NULL;
    }
    return NULL;
}

// The weights of channel c, from outside (the first) or inside (the second): runs of `window`.
static size_t equal_runs(const struct equal_weight *w, bool of_inputs)
{
    return of_inputs && !w->depthwise ? w->outputs : w->inputs;
}

static float *equal_run(const struct equal_weight *w, bool of_inputs, size_t c, size_t run)
{
    size_t row = of_inputs && !w->depthwise ? run * w->inputs + c : c * w->inputs + run;
    return w->values + row * w->window;
}

// The largest weight of channel c by size, which is what decides the scale of a weight that has one
// for all of its outputs.
static double equal_largest(const struct equal_weight *w, bool of_inputs, size_t c)
{
    float largest = 0;
    for (size_t r = 0; r < equal_runs(w, of_inputs); r++) {
        const float *run = equal_run(w, of_inputs, c, r);
        for (size_t i = 0; i < w->window; i++)
            largest = fabsf(run[i]) > largest ? fabsf(run[i]) : largest;
    }
    return (double)largest;
}

// How far the first product's outputs reach, about: what inputs of a usual size (1) make of the
// weights, and the bias. 0: there is no bias, which alone asks for it.
static double equal_reach(const struct equal_pair *p)
{
    const struct equal_weight *w = &p->first;
    size_t each = w->inputs * w->window;
    double most = 0;
    for (size_t c = 0; p->bias && c < w->outputs; c++) {
        double squares = 0;
        for (size_t i = 0; i < each; i++)
            squares += (double)w->values[c * each + i] * w->values[c * each + i];
        most = fmax(most, fabs((double)p->bias[c]) + DEVIATIONS * sqrt(squares));
    }
    return most;
}

// What channel c of the first weight is divided by, and that of the second multiplied with, for
// both to be as large. 0: a side is all 0, and no factor helps. A channel that is nearly dead has
// its bias all the same: that grows with the weights, and the tensor's one scale has to reach it,
// so it stays within what others reach.
static double equal_factor(const struct equal_pair *p, size_t c, double reach)
{
    double r1 = equal_largest(&p->first, false, c), r2 = equal_largest(&p->second, true, c);
    double s = r1 > 0 && r2 > 0 ? sqrt(r1 * r2) / r2 : 0;
    return s > 0 && reach > 0 ? fmax(s, fabs((double)p->bias[c]) / reach) : s;
}

// How unlike the factors of channels would be: the largest by the least.
static double equal_spread(const struct equal_pair *p)
{
    double least = INFINITY, most = 0, reach = equal_reach(p);
    for (size_t c = 0; c < p->first.outputs; c++) {
        double s = equal_factor(p, c, reach);
        least = s > 0 ? fmin(least, s) : least;
        most = fmax(most, s);
    }
    return most > 0 ? most / least : 1;
}

// Pairs of which nothing but the second product sees what lies between: a factor on one side and
// its inverse on the other then change no result. Clip and smooth activations have fixed places,
// which a factor would move.
static void equal_find(struct equalizing *q)
{
    for (size_t i = 0; i < q->m->graph->n_node; i++) {
        const Quant__Node *n = q->m->graph->node[i];
        struct equal_pair pair = {0};
        const Quant__Node *next = quant_is(n, "Conv") ? equal_next(q, n) : NULL;
        if (!next || !equal_take_weight(q, n, &pair.first) ||
            !equal_take_weight(q, next, &pair.second))
            continue;
        if (pair.first.outputs !=
            (pair.second.depthwise ? pair.second.outputs : pair.second.inputs))
            continue;
        if (*quant_input(n, 2) && !(pair.bias = equal_own(q, n, 2)))
            continue;
        pair.from = n;
        pair.to = next;
        if (equal_spread(&pair) < LEAST_SPREAD)
            continue;
        q->pairs[q->n++] = pair;
    }
}

// A power of two would be exact, but leaves channels up to half a bit apart; nothing is stored yet.
static void equal_scale(const struct equal_weight *w, bool of_inputs, size_t c, double factor)
{
    for (size_t r = 0; r < equal_runs(w, of_inputs); r++) {
        float *run = equal_run(w, of_inputs, c, r);
        for (size_t i = 0; i < w->window; i++)
            run[i] = (float)(run[i] * factor);
    }
}

// A factor has bounds, so that no step is out of all measure.
static void equal_pair_once(const struct equal_pair *p)
{
    double reach = equal_reach(p);
    for (size_t c = 0; c < p->first.outputs; c++) {
        double s = equal_factor(p, c, reach);
        if (!(s > 0))
            continue;
        s = fmin(fmax(s, 1 / MOST_FACTOR), MOST_FACTOR);
        equal_scale(&p->first, false, c, 1 / s);
        equal_scale(&p->second, true, c, s);
        if (p->bias)
            p->bias[c] = (float)(p->bias[c] / s);
    }
}

// ---- names ----

// A tensor with factors is another one: whoever compared it with the float model's by its name
// would take the factors for errors. names: of each edge, new ones.
static int equal_rename(const struct equalizing *q, char **names)
{
    Quant__Graph *g = q->m->graph;
    for (uint32_t i = 0; i < q->n; i++)
        for (const Quant__Node *n = q->pairs[i].from; n != q->pairs[i].to;) {
            const struct quant_edge *out = quant_index_find(&q->x, quant_output(n, 0));
            char *name = names[out - q->x.edges] =
                quant_index_fresh(&q->x, &q->m->pool, "%s" QUANT_EQUALIZED, out->name);
            if (!name)
                return error_no_memory(q->e, "names", q->n);
            n = g->node[quant_index_use(&q->x, out, 0)->node];
        }
    for (size_t i = 0; i < g->n_value_info; i++) {
        const struct quant_edge *of = quant_index_find(&q->x, quant_text(g->value_info[i]->name));
        if (of && names[of - q->x.edges])
            g->value_info[i]->name = names[of - q->x.edges];
    }
    return 0;
}

// Both ends of each of them.
static void equal_put_names(const struct equalizing *q, char *const *names)
{
    for (uint32_t i = 0; i < q->x.n; i++) {
        if (!names[i])
            continue;
        const struct quant_use *use = quant_index_use(&q->x, &q->x.edges[i], 0);
        q->m->graph->node[q->x.edges[i].producer]->output[0] = names[i];
        q->m->graph->node[use->node]->input[use->input] = names[i];
    }
}

// Once at the end, as the index that all is found by has the old names.
static int equal_name_all(const struct equalizing *q)
{
    cleanup(free_p) char **names = calloc((size_t)q->x.n + 1, sizeof *names);
    int r = names ? equal_rename(q, names) : error_no_memory(q->e, "names", q->x.n);
    if (r == 0)
        equal_put_names(q, names);
    return r;
}

int quant_equalize(struct quant_model *m, uint32_t *ret_n, struct error *e)
{
    struct equalizing q = {.m = m, .e = e};
    *ret_n = 0;
    if (m->has_subgraphs)
        return 0;
    int r = quant_index_make(&q.x, m, e);
    if (r == 0 && !(q.pairs = calloc(m->graph->n_node + 1, sizeof *q.pairs)))
        r = error_no_memory(e, "the model", 0);
    if (r == 0)
        equal_find(&q);
    for (int sweep = 0; sweep < SWEEPS && r == 0; sweep++)
        for (uint32_t i = 0; i < q.n; i++)
            equal_pair_once(&q.pairs[i]);
    if (r == 0)
        r = equal_name_all(&q);
    *ret_n = q.n;
    free(q.pairs);
    quant_index_done(&q.x);
    return r;
}
