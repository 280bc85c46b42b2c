// Noise is in units of what is usual, squared, and not of the mean square: a few huge values make
// both the steps and the mean square large, while what they drown is the rest.
#include "quant/hybrid/quant_noise.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_mmse.h"
#include "quant/model/quant_constant.h"
#include "quant/plan/quant_weights.h"
#include "quant/quant_parallel.h"

static double noise_ratio(double error, double usual)
{
    return usual > 0 ? error / (usual * usual) : 0;
}

// A tensor that was not looked at itself, as a move makes it, has the noise of the worst of its
// group. A tensor counts for the node that makes it and for those that read it: it stays in 8 bits
// until all of them are float, which so come near each other in the order and are tried together.
static double noise_of_edge(const struct rknnd_quant *q, uint32_t i)
{
    double most = 0;
    uint32_t group = q->plan.places[i].group;
    if (!q->plan.places[i].quantized)
        return 0;
    for (uint32_t k = 0; k < q->index.n; k++) {
        const struct observer *o = &q->seen[k];
        if (!o->bins || q->plan.places[k].group != group || (q->seen[i].bins && k != i))
            continue;
        double ratio =
            noise_ratio(quant_range_error(o, q->base.forms[group]), quant_range_usual(o));
        most = ratio > most ? ratio : most;
    }
    return most;
}

static void noise_swap(float *a, float *b)
{
    float kept = *a;
    *a = *b;
    *b = kept;
}

// What would be at place k if they were sorted, which takes longer: parts that it is not in are
// left alone (Hoare 1961, find). Equal ones go to both sides, so that many of them are no worst
// case.
static float noise_place(float *v, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        float middle = v[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;; i++, j--) {
            for (; v[i] < middle; i++)
                continue;
            for (; v[j] > middle; j--)
                continue;
            if (i >= j)
                break;
            noise_swap(&v[i], &v[j]);
        }
        // All up to j are not above, all behind are not below.
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return v[k];
}

// Usual are weights as large as the median of those that are not 0. An output's weights lie at
// [(outer * n_outputs + output) * inner + …]; `room` is for as many.
static double noise_of_output(const struct quant_weights *w, const float *values, size_t outer,
                              size_t inner, size_t output, float *room)
{
    double scale = (double)w->scales[w->n_scales == 1 ? 0 : output], error = 0;
    size_t used = 0;
    for (size_t k = 0; k < outer; k++)
        for (size_t at = (k * w->n_outputs + output) * inner, i = at; i < at + inner; i++) {
            double off = (double)values[i] - w->weight[i] * scale;
            error += off * off;
            room[used] = fabsf(values[i]);
            used += values[i] != 0;
        }
    if (!used)
        return 0;
    float usual = noise_place(room, used, used / 2);
    return noise_ratio(error / (double)(outer * inner), (double)usual);
}

// As the weight would be written, but without its bias, whose 32 bits lose nothing.
static int noise_of_weight(const struct rknnd_quant *q, uint32_t node, double *ret, struct error *e)
{
    const Quant__Node *n = q->model.graph->node[node];
    const Quant__Tensor *t = quant_index_weight(&q->index, n, 1);
    const struct quant_edge *x = quant_index_find(&q->index, quant_input(n, 0));
    const struct quant_weight_options options = {.per_channel = !q->per_layer,
                                                 .search = quant_searches_weight(q, node),
                                                 .store = quant_store_of(q, q->plan.bits[node]),
                                                 .searched =
                                                     q->searched ? q->searched[node] : NULL};
    const float *values = NULL;
    struct quant_weights w = {0};
    uint32_t group = quant_plan_place(&q->plan, &q->index, x)->group;
    int r = quant_constant_floats(t, &values, e);
    if (r == 0)
        r = quant_weights_make(&w, &q->index, n, q->base.forms[group].scale, &options, NULL, 0, e);
    size_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        outer *= i < w.axis ? (size_t)t->dims[i] : 1;
        inner *= i > w.axis ? (size_t)t->dims[i] : 1;
    }
    cleanup(free_p) float *room = malloc((outer * inner + 1) * sizeof *room);
    if (r == 0 && !room)
        r = error_no_memory(e, "a weight", outer * inner);
    *ret = 0;
    for (size_t o = 0; o < w.n_outputs && r == 0; o++)
        *ret += noise_of_output(&w, values, outer, inner, o, room) / (double)w.n_outputs;
    quant_weights_done(&w);
    return r;
}

// Where the node's output is stored: behind the activation that is computed with it.
static double noise_of_result(const struct rknnd_quant *q, const Quant__Node *n)
{
    const struct quant_edge *out = quant_index_find(&q->index, quant_output(n, 0));
    int32_t reader = out ? quant_index_only_reader(&q->index, out) : -1;
    if (reader >= 0 && q->plan.kinds[reader] == QUANT_NODE_FUSED)
        out = quant_index_find(&q->index, quant_output(q->model.graph->node[reader], 0));
    return out ? noise_of_edge(q, (uint32_t)(out - q->index.edges)) : 0;
}

// An activation that is computed with a node has no noise of its own: it stays float with it.
static int noise_of_node(const struct rknnd_quant *q, uint32_t node, struct quant_noise_parts *ret,
                         struct error *e)
{
    const Quant__Node *n = q->model.graph->node[node];
    uint8_t kind = q->plan.kinds[node];
    int r = kind == QUANT_NODE_PRODUCT ? noise_of_weight(q, node, &ret->weight, e) : 0;
    if (kind != QUANT_NODE_PRODUCT && kind != QUANT_NODE_VALUE)
        return r;
    for (size_t i = 0; i < n->n_input; i++) {
        const struct quant_edge *in = quant_index_find(&q->index, quant_input(n, i));
        if (in && !in->constant)
            ret->input += noise_of_edge(q, (uint32_t)(in - q->index.edges));
    }
    ret->output = noise_of_result(q, n);
    return r;
}

struct noise_measuring {
    const struct rknnd_quant *q;
    struct quant_noise_parts *noise;
};

static int noise_measure_node(void *user, uint32_t node, struct error *e)
{
    const struct noise_measuring *m = user;
    return noise_of_node(m->q, node, &m->noise[node], e);
}

int quant_noise_measure(struct rknnd_quant *q, struct error *e)
{
    if (q->noise)
        return 0;
    cleanup(free_p) struct quant_noise_parts *noise =
        calloc((size_t)q->plan.n_nodes + 1, sizeof *noise);
    if (!noise)
        return error_no_memory(e, "the nodes", q->plan.n_nodes);
    struct noise_measuring m = {q, noise};
    int r = quant_parallel(q->n_clients, q->plan.n_nodes, noise_measure_node, &m, e);
    if (r == 0)
        q->noise = steal_ptr(noise);
    return r;
}
