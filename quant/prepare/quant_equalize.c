// With r1 and r2 the largest weights of a channel on both sides, the channel is divided by
// s = sqrt(r1 * r2) / r2 in the first product and multiplied by it in the second: both then reach
// sqrt(r1 * r2) (Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
// Correction, 2019, equation 11). Pairs in a chain pull at each other, so all are done some times.
#include "quant/prepare/quant_equalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/each_cpu.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_index.h"
#include "quant/quant_parallel.h"

#define SWEEPS       10
#define LEAST_SPREAD 2.0 // of a pair's factors: less is less than a bit, and names stay as they are
#define MOST_FACTOR  1e3 // of a channel and pair
#define DEVIATIONS   3   // that outputs reach as a rule

#define FEW   65536 // weights of a pair: threads would take longer to start
#define PARTS 16    // of channels
#define SOME  64    // channels, whose columns are looked at together
#define LANES 8     // sums side by side

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
    const float *finite;
    struct error ignored;
    w->window = quant_constant_count(t) / w->outputs / w->inputs;
    return quant_constant_floats(t, &finite, &ignored) == 0;
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

// ---- channels ----

// The weights of a channel that goes out, or into a depthwise product, follow each other: a row. Of
// one that goes into another product they are a column, of runs of `window`. Columns are looked at
// some at a time, row by row, as they lie in memory.
static bool equal_is_rows(const struct equal_weight *w, bool of_inputs)
{
    return !of_inputs || w->depthwise;
}

static uint32_t equal_size(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits & 0x7fffffff; // bits of positive floats have their order
}

FOR_EACH_CPU static float equal_largest_of_row(const float *row, size_t n)
{
    uint32_t largest = 0;
    float ret;
    for (size_t i = 0; i < n; i++) {
        uint32_t size = equal_size(row[i]);
        largest = size > largest ? size : largest;
    }
    memcpy(&ret, &largest, sizeof ret);
    return ret;
}

FOR_EACH_CPU static void equal_join_columns(const float *runs, size_t n, size_t window,
                                            float *largest)
{
    for (size_t c = 0; c < n && window == 1; c++) {
        float size = fabsf(runs[c]);
        largest[c] = size > largest[c] ? size : largest[c];
    }
    for (size_t c = 0; c < n && window > 1; c++)
        for (size_t i = 0; i < window; i++) {
            float size = fabsf(runs[c * window + i]);
            largest[c] = size > largest[c] ? size : largest[c];
        }
}

// The largest weights of `n` channels by size, which are what decides the scale of a weight that
// has one for all of its outputs.
static void equal_largest(const struct equal_weight *w, bool of_inputs, size_t from, size_t n,
                          float *ret)
{
    size_t row = w->inputs * w->window;
    for (size_t c = 0; c < n && equal_is_rows(w, of_inputs); c++)
        ret[c] = equal_largest_of_row(w->values + (from + c) * row, row);
    if (equal_is_rows(w, of_inputs))
        return;
    memset(ret, 0, n * sizeof *ret);
    for (size_t o = 0; o < w->outputs; o++)
        equal_join_columns(w->values + o * row + from * w->window, n, w->window, ret);
}

// Of some rows at a time, whose sums do not wait for each other.
static void equal_squares(const float *rows, size_t each, size_t n, double *ret)
{
    double sums[LANES] = {0};
    for (size_t i = 0; i < each && n == LANES; i++)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += (double)rows[k * each + i] * (double)rows[k * each + i];
    for (size_t k = 0; k < n && n < LANES; k++)
        for (size_t i = 0; i < each; i++)
            sums[k] += (double)rows[k * each + i] * (double)rows[k * each + i];
    memcpy(ret, sums, n * sizeof *sums);
}

// ---- a pair ----

// Channels `from` to `to` - 1, of which those of a large pair are parts for threads.
typedef void equal_do(const struct equal_pair *p, size_t from, size_t to, double *value);

struct equal_parts {
    const struct equal_pair *p;
    equal_do *act;
    double values[PARTS];
};

static int equal_one_part(void *user, uint32_t i, struct error *e)
{
    struct equal_parts *parts = user;
    size_t n = parts->p->first.outputs;
    (void)e;
    parts->act(parts->p, n * i / PARTS, n * (i + 1) / PARTS, &parts->values[i]);
    return 0;
}

// *ret: the largest value, of 0 and what `act` has found.
static void equal_each(const struct equal_pair *p, equal_do *act, double value, double *ret)
{
    struct equal_parts parts = {.p = p, .act = act};
    struct error ignored; // no part fails
    size_t all = p->first.outputs * p->first.inputs * p->first.window +
                 p->second.outputs * p->second.inputs * p->second.window;
    *ret = 0;
    for (uint32_t i = 0; i < PARTS; i++)
        parts.values[i] = value;
    if (all < FEW)
        act(p, 0, p->first.outputs, &parts.values[0]);
    else
        quant_parallel(quant_processors(), PARTS, equal_one_part, &parts, &ignored);
    for (uint32_t i = 0; i < (all < FEW ? 1 : PARTS); i++)
        *ret = fmax(*ret, parts.values[i]);
}

static void equal_reach_of(const struct equal_pair *p, size_t from, size_t to, double *value)
{
    const struct equal_weight *w = &p->first;
    size_t each = w->inputs * w->window;
    *value = 0;
    for (size_t c = from; c < to; c += LANES) {
        double squares[LANES];
        size_t n = to - c < LANES ? to - c : LANES;
        equal_squares(w->values + c * each, each, n, squares);
        for (size_t k = 0; k < n; k++)
            *value = fmax(*value, fabs((double)p->bias[c + k]) + DEVIATIONS * sqrt(squares[k]));
    }
}

// How far the first product's outputs reach, about: what inputs of a usual size (1) make of the
// weights, and the bias. 0: there is no bias, which alone asks for it.
static double equal_reach(const struct equal_pair *p)
{
    double most = 0;
    if (p->bias)
        equal_each(p, equal_reach_of, 0, &most);
    return most;
}

// What channel c of the first weight is divided by, and that of the second multiplied with, for
// both to be as large. 0: a side is all 0, and no factor helps. A channel that is nearly dead has
// its bias all the same: that grows with the weights, and the tensor's one scale has to reach it,
// so it stays within what others reach.
static double equal_factor(const struct equal_pair *p, size_t c, double r1, double r2, double reach)
{
    double s = r1 > 0 && r2 > 0 ? sqrt(r1 * r2) / r2 : 0;
    return s > 0 && reach > 0 ? fmax(s, fabs((double)p->bias[c]) / reach) : s;
}

// Of n channels, SOME at most.
static void equal_factors(const struct equal_pair *p, size_t from, size_t n, double reach,
                          double *ret)
{
    float first[SOME], second[SOME];
    equal_largest(&p->first, false, from, n, first);
    equal_largest(&p->second, true, from, n, second);
    for (size_t c = 0; c < n; c++)
        ret[c] = equal_factor(p, from + c, (double)first[c], (double)second[c], reach);
}

// How unlike the factors of channels would be: the largest by the least.
static double equal_spread(const struct equal_pair *p)
{
    double least = INFINITY, most = 0, reach = equal_reach(p), factors[SOME];
    for (size_t c = 0; c < p->first.outputs; c++) {
        size_t left = p->first.outputs - c;
        if (c % SOME == 0)
            equal_factors(p, c, left < SOME ? left : SOME, reach, factors);
        double s = factors[c % SOME];
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

FOR_EACH_CPU static void equal_scale_row(float *row, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (float)((double)row[i] * factor);
}

FOR_EACH_CPU static void equal_scale_columns(float *runs, size_t n, size_t window,
                                             const double *factors)
{
    for (size_t c = 0; c < n && window == 1; c++)
        runs[c] = (float)((double)runs[c] * factors[c]);
    for (size_t c = 0; c < n && window > 1; c++)
        for (size_t i = 0; i < window; i++)
            runs[c * window + i] = (float)((double)runs[c * window + i] * factors[c]);
}

// A power of two would be exact, but leaves channels up to half a bit apart; nothing is stored yet.
static void equal_scale(const struct equal_weight *w, bool of_inputs, size_t from, size_t n,
                        const double *factors)
{
    size_t row = w->inputs * w->window;
    bool rows = equal_is_rows(w, of_inputs);
    for (size_t c = 0; c < n && rows; c++)
        equal_scale_row(w->values + (from + c) * row, row, factors[c]);
    for (size_t o = 0; o < w->outputs && !rows; o++)
        equal_scale_columns(w->values + o * row + from * w->window, n, w->window, factors);
}

// A factor has bounds, so that no step is out of all measure. One of 1 changes nothing.
static void equal_some(const struct equal_pair *p, size_t from, size_t n, double reach)
{
    double factors[SOME], inverse[SOME];
    equal_factors(p, from, n, reach, factors);
    for (size_t c = 0; c < n; c++) {
        double s = factors[c] > 0 ? fmin(fmax(factors[c], 1 / MOST_FACTOR), MOST_FACTOR) : 1;
        factors[c] = s;
        inverse[c] = 1 / s;
        if (p->bias)
            p->bias[from + c] = (float)(p->bias[from + c] / s);
    }
    equal_scale(&p->first, false, from, n, inverse);
    equal_scale(&p->second, true, from, n, factors);
}

// *reach: what equal_reach() says, which is of all channels as they were.
static void equal_channels(const struct equal_pair *p, size_t from, size_t to, double *reach)
{
    for (size_t c = from; c < to; c += SOME)
        equal_some(p, c, to - c < SOME ? to - c : SOME, *reach);
}

static void equal_pair_once(const struct equal_pair *p)
{
    double unwanted;
    equal_each(p, equal_channels, equal_reach(p), &unwanted);
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
