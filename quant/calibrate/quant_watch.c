// Each node stands right behind the one that makes its tensor, which is still in the caches then:
//
//     Conv -> y -> readers            all that is seen -> Concat -> the output
//             y -> Observe -> y_seen ----^
#include "quant/calibrate/quant_watch.h"

#include <stdlib.h>
#include <string.h>

#include "quant/calibrate/quant_bound.h"
#include "tensor/observe/observation.h"

#define DOMAIN "rknnd"

void quant_watched_done(struct quant_watched *w)
{
    free(w->edges);
    *w = (struct quant_watched){0};
}

int quant_watch_plan(const struct rknnd_quant *q, struct quant_watched *w, struct error *e)
{
    *w = (struct quant_watched){.edges = calloc((size_t)q->index.n + 1, sizeof *w->edges)};
    if (!w->edges)
        return error_no_memory(e, "the calibration", q->index.n);
    for (uint32_t i = 0; i < q->index.n; i++)
        if (q->plan.places[i].observed)
            w->edges[w->n++] = i;
    return 0;
}

// By readers, not by what is planned: layers can become 8 bits later, without another calibration.
bool quant_watch_has_means(const struct rknnd_quant *q, const struct quant_edge *edge)
{
    for (uint32_t i = 0; q->corrects_bias && i < edge->n_uses; i++) {
        const struct quant_use *use = quant_index_use(&q->index, edge, i);
        const Quant__Node *n = q->model.graph->node[use->node];
        if (use->input == 0 && (quant_is(n, "Conv") || quant_is(n, "Gemm")))
            return true;
    }
    return false;
}

// ---- the model ----

struct watching {
    const struct rknnd_quant *q;
    struct quant_model *m;
    uint32_t most; // values; 0: histograms of all
    struct quant_node_list nodes;
    const char **seen; // names, by place in quant_watched.edges
};

// "" for tensors of other nodes; NULL: out of memory.
static char *watch_name(const struct watching *g, const char *what, uint32_t i)
{
    return quant_index_fresh(&g->q->index, &g->m->pool, "rknnd_%s%u", what, i);
}

static bool watch_edge(struct watching *g, const struct quant_watched *w, uint32_t i)
{
    const struct quant_edge *edge = &g->q->index.edges[w->edges[i]];
    const char *name = edge->name;
    const char *seen = g->seen[i] = watch_name(g, "seen", i);
    if (!seen)
        return false;
    Quant__Node *n = quant_model_node(g->m, "Observe", seen, 1, &name, seen);
    return n && (n->domain = quant_pool_text(&g->m->pool, "%s", DOMAIN)) &&
           quant_model_set_int(g->m, n, "bins", !g->most) &&
           quant_model_set_int(g->m, n, "values", g->most) &&
           quant_model_set_int(g->m, n, "tails", quant_watch_decides(g->q)) &&
           quant_model_set_int(g->m, n, "channels", quant_watch_has_means(g->q, edge)) &&
           quant_model_append(g->m, &g->nodes, n);
}

// Those of inputs (producer -1), or behind a node.
static bool watch_behind(struct watching *g, const struct quant_watched *w, int32_t producer)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (g->q->index.edges[w->edges[i]].producer == producer && !watch_edge(g, w, i))
            return false;
    return true;
}

static bool watch_join(struct watching *g, const struct quant_watched *w)
{
    Quant__Graph *graph = g->m->graph;
    const char *all = watch_name(g, "seen_all", 0);
    Quant__Node *join = all ? quant_model_node(g->m, "Concat", all, w->n, g->seen, all) : NULL;
    graph->n_output = 0;
    return join && quant_model_set_int(g->m, join, "axis", 0) &&
           quant_model_append(g->m, &g->nodes, join) && quant_model_add_output(g->m, all) &&
           quant_model_import(g->m, DOMAIN, 1);
}

int quant_watch_make(const struct rknnd_quant *q, const struct quant_watched *w, uint32_t most,
                     struct quant_model *ret, struct error *e)
{
    int r = quant_model_copy(ret, &q->model, e);
    struct watching g = {.q = q, .m = ret, .most = most};
    g.seen = r == 0 ? quant_pool_take(&ret->pool, (size_t)w->n + 1, sizeof *g.seen) : NULL;
    if (r < 0 || !g.seen)
        return r < 0 ? r : error_no_memory(e, "the model", w->n);
    bool good = watch_behind(&g, w, -1);
    for (size_t i = 0; i < ret->graph->n_node && good; i++)
        good = quant_model_append(ret, &g.nodes, ret->graph->node[i]) &&
               watch_behind(&g, w, (int32_t)i);
    if (!good || !watch_join(&g, w))
        return error_no_memory(e, "the model", w->n);
    quant_model_take_nodes(ret, &g.nodes);
    return 0;
}

// ---- what comes out ----

// One tensor of one sample; *words and *n: what is left of that.
static int watch_take_one(const struct rknnd_quant *q, uint32_t edge, const int32_t **words,
                          uint64_t *n, struct observer *seen, struct error *e)
{
    struct observer *o = &seen[edge];
    uint32_t channels = observation_channels(*words, *n);
    uint64_t taken;
    int r = o->bins ? observer_widen(o, channels, e) : observer_init(o, channels, e);
    if (r < 0)
        return r;
    r = observation_take(o, *words, *n, &taken, e);
    if (r < 0)
        return error_prefix(e, "what the server saw of tensor %s", q->index.edges[edge].name);
    *words += taken;
    *n -= taken;
    return 0;
}

// All samples of a tensor, then those of the next one: so what is kept of a tensor is in the caches
// meanwhile.
int quant_watch_take(const struct rknnd_quant *q, const struct quant_watched *w,
                     const struct quant_watched_words *words, struct observer *seen,
                     struct quant_watched_bad *ret_bad, struct error *e)
{
    const int32_t *at[QUANT_MOST_GROUP];
    uint64_t left[QUANT_MOST_GROUP];
    ret_bad->edge = -1;
    for (uint32_t s = 0; s < words->n_samples; s++) {
        at[s] = words->words + s * words->n;
        left[s] = words->n;
    }
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t s = 0; s < words->n_samples; s++) {
            int r = watch_take_one(q, w->edges[i], &at[s], &left[s], seen, e);
            if (r < 0)
                return r;
            if (seen[w->edges[i]].n_bad) {
                *ret_bad = (struct quant_watched_bad){(int32_t)w->edges[i], s};
                return STATUS_INPUT_INVALID;
            }
        }
    for (uint32_t s = 0; s < words->n_samples; s++)
        if (left[s])
            return error_set(e, STATUS_FAIL, "the server saw more than it was asked for");
    return 0;
}
