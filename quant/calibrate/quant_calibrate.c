// Each client is a context and a thread with observers of its own; they share one loaded model.
// Samples are taken in rounds, after which the clients' observers are added up and, now and then,
// written to the state file: so what it says is always of the first so many samples.
//
// Where the server can look at tensors itself (quant_watch.h) it does. Else values are seen by
// dumps. What a dump leaves out, since the device fuses it into another node, becomes an output of
// the model that is run: the first dump tells.
#include "quant/calibrate/quant_calibrate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "quant/calibrate/quant_bound.h"
#include "quant/calibrate/quant_server.h"
#include "quant/calibrate/quant_state.h"
#include "quant/calibrate/quant_values.h"
#include "quant/calibrate/quant_watch.h"
#include "tensor/observe/sampling.h"

#define ROUND         8           // samples of each client before what they saw is added up,
#define MOST_ROUND    4096        // as long as a round takes less than
#define SHORT_ROUND   500000000u  // ns
#define MOST_GROWTH   8           // from a round to the next
#define SAVE_EVERY_NS 2000000000u // of the state
#define MOST_OUTPUTS  128         // of a model
#define MOST_NAME     (RKNN_MAX_NAME_LEN - 1) // bytes of a name that servers show

struct calibration {
    struct rknnd_quant *q;
    const rknnd_quant_samples *samples;
    uint32_t n_inputs;
    rknn_tensor_attr *inputs;
    struct quant_edge **input_edges; // NULL: it is not to be observed
    atomic_bool *shown;              // edges that a dump has; set by all clients
    struct quant_watched watched;
    uint32_t n_clients;
    bool watches;  // by nodes of the model; else by dumps
    uint32_t most; // values of a tensor and sample that are counted; 0: all
    _Atomic uint32_t next, end, done, failed;
    pthread_mutex_t lock; // of `error`, and calls of progress()
    struct error error;
};

struct client {
    struct calibration *c;
    rknn_context context;
    bool open;
    struct quant_bound bound; // where tensors are watched
    uint32_t sample;
    struct observer *seen;
    struct observer_scratch scratch;
    struct error error;
};

// ---- one sample ----

static int calibrate_not_finite(struct client *k, const struct quant_edge *edge, uint64_t n)
{
    char words[256];
    snprintf(words, sizeof words,
             "tensor %s has %llu values that are no finite numbers (NaN or infinite)", edge->name,
             (unsigned long long)n);
    return quant_sample_failed(k->c->samples, k->sample, STATUS_INPUT_INVALID, words, &k->error);
}

static int calibrate_observe(struct client *k, const struct quant_edge *edge,
                             const struct quant_values *v)
{
    struct observer *o = &k->seen[edge - k->c->q->index.edges];
    uint32_t channels = quant_watch_has_means(k->c->q, edge) ? v->n_channels : 0;
    int r = o->bins ? 0 : observer_init(o, channels, &k->error);
    bool sums = o->n_channels && o->n_channels == v->n_channels;
    if (r == 0 && k->c->most)
        r = quant_values_count(v, sums, quant_watch_decides(k->c->q), k->c->most, o, &k->error);
    else if (r == 0)
        observer_add(o, v->values, v->n, sums ? v->inner : 0, &k->scratch);
    return r < 0 || !o->n_bad ? r : calibrate_not_finite(k, edge, o->n_bad);
}

static int calibrate_take_tensor(void *user, const rknnd_tensor *t)
{
    struct client *k = user;
    const struct rknnd_quant *q = k->c->q;
    const struct quant_edge *edge = quant_index_find_shown(&q->index, t->name, MOST_NAME);
    if (!edge || !quant_plan_place(&q->plan, &q->index, edge)->observed)
        return 0;
    atomic_store_explicit(&k->c->shown[edge - q->index.edges], true, memory_order_relaxed);
    struct quant_values v;
    int r = quant_values_of_tensor(t, &v, &k->error);
    if (r == 0)
        r = calibrate_observe(k, edge, &v);
    free(v.own);
    return r;
}

static int calibrate_take_inputs(struct client *k, const rknn_input *inputs)
{
    int r = 0;
    for (uint32_t i = 0; i < k->c->n_inputs && r == 0; i++) {
        struct quant_values v = {0};
        if (!k->c->input_edges[i])
            continue;
        r = quant_values_of_input(&inputs[i], &k->c->inputs[i], &v, &k->error);
        if (r == 0)
            r = calibrate_observe(k, k->c->input_edges[i], &v);
        free(v.own);
    }
    return r;
}

// By dumps.
static int calibrate_dump(struct client *k, rknn_input *inputs)
{
    int r = calibrate_take_inputs(k, inputs);
    if (r == 0)
        r = rknn_inputs_set(k->context, k->c->n_inputs, inputs);
    return r < 0 ? r : rknnd_dump_layers(k->context, NULL, calibrate_take_tensor, k);
}

// What came out of the last request, of so many samples from `first` on.
static int calibrate_take_seen(struct client *k, uint32_t first, uint32_t n)
{
    const struct rknnd_quant *q = k->c->q;
    struct quant_watched_words words = {.n_samples = n};
    struct quant_watched_bad bad;
    words.words = quant_bound_words(&k->bound, 0, &words.n);
    int r = quant_watch_take(q, &k->c->watched, &words, k->seen, &bad, &k->error);
    if (bad.edge < 0)
        return r;
    k->sample = first + bad.sample;
    return calibrate_not_finite(k, &q->index.edges[bad.edge], k->seen[bad.edge].n_bad);
}

// By nodes of the model, whose output is small.
static int calibrate_watch(struct client *k, rknn_input *inputs)
{
    int r = 0;
    if (!k->bound.output)
        r = quant_bound_init(&k->bound, k->context, k->c->n_inputs, k->c->inputs);
    if (r == 0)
        r = quant_bound_run(&k->bound, inputs);
    return r < 0 ? r : calibrate_take_seen(k, k->sample, 1);
}

static int calibrate_sample(struct client *k, uint32_t sample)
{
    const rknnd_quant_samples *s = k->c->samples;
    cleanup(free_p) rknn_input *inputs = calloc(k->c->n_inputs + 1, sizeof *inputs);
    if (!inputs)
        return error_no_memory(&k->error, "inputs", 0);
    k->sample = sample;
    k->error = (struct error){0};
    int r = s->read(s->user, sample, k->c->n_inputs, inputs);
    if (r < 0)
        return quant_sample_failed(s, sample, r, "its inputs cannot be read", &k->error);
    r = k->c->watches ? calibrate_watch(k, inputs) : calibrate_dump(k, inputs);
    if (s->release)
        s->release(s->user, k->c->n_inputs, inputs);
    if (r < 0 && !k->error.code)
        quant_sample_failed(s, sample, r, rknnd_last_reason(), &k->error);
    return r < 0 ? k->error.code : 0;
}

// ---- several samples ----

// False: a sample cannot be read, or cannot lie in the request's memory.
static bool calibrate_put(struct client *k, uint32_t sample, uint32_t at)
{
    const rknnd_quant_samples *s = k->c->samples;
    cleanup(free_p) rknn_input *inputs = calloc(k->c->n_inputs + 1, sizeof *inputs);
    if (!inputs || s->read(s->user, sample, k->c->n_inputs, inputs) < 0)
        return false;
    bool good = quant_bound_put(&k->bound, inputs, at);
    if (s->release)
        s->release(s->user, k->c->n_inputs, inputs);
    return good;
}

// One request. False: nothing came of it, and the samples are to be run one by one, which tells
// what is wrong, and of which one.
static bool calibrate_group(struct client *k, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!calibrate_put(k, first + i, i))
            return false;
    return quant_bound_run_group(&k->bound, n) == 0;
}

// ---- rounds ----

static void calibrate_tell(struct calibration *c, const struct error *e)
{
    pthread_mutex_lock(&c->lock);
    if (e && !c->failed)
        c->error = *e;
    if (e)
        c->failed = 1;
    uint32_t done = e ? c->done : ++c->done;
    if (!e && c->samples->progress && c->samples->progress(c->samples->user, done) && !c->failed) {
        error_set(&c->error, STATUS_FAIL, "ended after %u of %u samples", done, c->samples->n);
        c->failed = 1;
    }
    pthread_mutex_unlock(&c->lock);
}

// The next samples for a client: fewer towards the end of a round, for which all have to wait.
static uint32_t calibrate_next(struct client *k, uint32_t *ret)
{
    struct calibration *c = k->c;
    uint32_t next = c->next, left = next < c->end ? c->end - next : 0;
    uint32_t n = k->bound.output ? quant_bound_group(&k->bound) : 1,
             share = left / (2 * c->n_clients);
    n = n < share ? n : share ? share : 1;
    *ret = atomic_fetch_add(&c->next, n);
    left = *ret < c->end ? c->end - *ret : 0;
    return n < left ? n : left;
}

static int calibrate_some(struct client *k, uint32_t first, uint32_t n)
{
    int r = 0;
    if (n > 1 && calibrate_group(k, first, n)) {
        k->error = (struct error){0};
        r = calibrate_take_seen(k, first, n);
        for (uint32_t i = 0; i < n && r == 0 && !k->c->failed; i++)
            calibrate_tell(k->c, NULL);
        return r;
    }
    for (uint32_t i = 0; i < n && r == 0 && !k->c->failed; i++) {
        r = calibrate_sample(k, first + i);
        if (r == 0)
            calibrate_tell(k->c, NULL);
    }
    return r;
}

static void *calibrate_work(void *user)
{
    struct client *k = user;
    struct calibration *c = k->c;
    for (uint32_t first, n; !c->failed && (n = calibrate_next(k, &first)) > 0;)
        if (calibrate_some(k, first, n) < 0)
            calibrate_tell(c, &k->error);
    return NULL;
}

// What a client saw goes to the whole; it begins anew.
static int calibrate_collect(struct client *k, struct error *e)
{
    const struct rknnd_quant *q = k->c->q;
    int r = 0;
    for (uint32_t i = 0; i < q->index.n && r == 0; i++) {
        if (!k->seen[i].bins)
            continue;
        if (!q->seen[i].bins)
            r = observer_init(&q->seen[i], k->seen[i].n_channels, e);
        else
            r = observer_widen(&q->seen[i], k->seen[i].n_channels, e);
        observer_flush(&k->seen[i]);
        if (r == 0)
            observer_merge(&q->seen[i], &k->seen[i]);
        observer_done(&k->seen[i]);
    }
    return r;
}

static int calibrate_round(struct calibration *c, struct client *clients, uint32_t n,
                           struct error *e)
{
    pthread_t threads[QUANT_MOST_CLIENTS];
    uint32_t started = 0;
    for (; started < n; started++)
        if (pthread_create(&threads[started], NULL, calibrate_work, &clients[started]) != 0)
            break;
    if (!started)
        return error_set(e, STATUS_FAIL, "no thread can be started");
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (c->failed)
        return error_set(e, c->error.code, "%s", c->error.text);
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = calibrate_collect(&clients[i], e);
    return r;
}

// As long as can be, since a round's end waits for the slowest client and adds up histograms. What
// an interrupted calibration does again is a round.
static uint32_t calibrate_next_round(uint32_t round, uint64_t took)
{
    uint64_t growth = SHORT_ROUND / (took + 1);
    growth = growth < 1 ? 1 : growth > MOST_GROWTH ? MOST_GROWTH : growth;
    return round * growth < MOST_ROUND ? (uint32_t)(round * growth) : MOST_ROUND;
}

static int calibrate_rounds(struct calibration *c, struct client *clients, uint32_t n,
                            uint32_t from, uint64_t fingerprint, struct error *e)
{
    const rknnd_quant_samples *s = c->samples;
    uint64_t saved = clock_ns();
    uint32_t done_before = from, round = ROUND;
    int r = 0;
    c->done = from;
    while (from < s->n && r == 0) {
        uint64_t begun = clock_ns();
        uint32_t end = s->n - from > n * round ? from + n * round : s->n;
        c->next = from;
        c->end = end;
        r = calibrate_round(c, clients, n, e);
        if (r == 0)
            from = end;
        round = calibrate_next_round(round, clock_ns() - begun);
        bool due = r < 0 || (from < s->n && clock_ns() - saved > SAVE_EVERY_NS);
        if (!s->state || !due || !from)
            continue;
        struct error ignored;
        int saving = quant_state_save(c->q, s->state, fingerprint, from, r < 0 ? &ignored : e);
        r = r < 0 ? r : saving;
        saved = clock_ns();
    }
    // What comes behind may be interrupted, too.
    bool goes_on = s->keeps_state || c->q->settles;
    if (r == 0 && s->state && goes_on && done_before < s->n)
        return quant_state_save(c->q, s->state, fingerprint, s->n, e);
    return r;
}

static uint32_t calibrate_most(const struct rknnd_quant *q, const rknnd_quant_samples *s)
{
    return s->all_values ? 0 : sampling_most(s->n, quant_watch_decides(q));
}

static uint64_t calibrate_fingerprint(const struct rknnd_quant *q, const rknnd_quant_samples *s)
{
    return quant_state_fingerprint(q, s->key ? s->key : "", s->n, calibrate_most(q, s));
}

int quant_calibrate_end(const struct rknnd_quant *q, const rknnd_quant_samples *s, struct error *e)
{
    if (!s->state)
        return 0;
    if (s->keeps_state)
        return q->summary.n_compared
                   ? quant_state_save(q, s->state, calibrate_fingerprint(q, s), s->n, e)
                   : 0;
    unlink(s->state);
    return 0;
}

// ---- the model that is run ----

static int calibrate_query_inputs(struct calibration *c, rknn_context context, struct error *e)
{
    rknn_input_output_num n;
    int r = rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    if (r < 0)
        return quant_server_words(r, e);
    c->n_inputs = n.n_input;
    free(c->inputs);
    free(c->input_edges);
    c->inputs = calloc(n.n_input + 1, sizeof *c->inputs);
    c->input_edges = calloc(n.n_input + 1, sizeof *c->input_edges);
    if (!c->inputs || !c->input_edges)
        return error_no_memory(e, "inputs", 0);
    for (uint32_t i = 0; i < n.n_input && r == 0; i++) {
        c->inputs[i].index = i;
        r = rknn_query(context, RKNN_QUERY_CURRENT_INPUT_ATTR, &c->inputs[i], sizeof c->inputs[i]);
        if (r < 0)
            return quant_server_words(r, e);
        struct quant_edge *edge =
            quant_index_find_shown(&c->q->index, c->inputs[i].name, MOST_NAME);
        if (edge && quant_plan_place(&c->q->plan, &c->q->index, edge)->observed)
            c->input_edges[i] = edge;
    }
    return 0;
}

static int calibrate_open(struct calibration *c, struct client *k, struct error *e)
{
    int r = quant_server_open(&c->q->model, &k->context, e);
    k->open = r == 0;
    return r < 0 ? r : calibrate_query_inputs(c, k->context, e);
}

static bool calibrate_is_missing(const struct calibration *c, uint32_t i)
{
    const struct quant_edge *edge = &c->q->index.edges[i];
    return c->q->plan.places[i].observed && edge->producer >= 0 && !c->shown[i];
}

// Tensors that the first dump has left out become outputs. *ret_n: how many.
static int calibrate_show_missing(struct calibration *c, uint32_t *ret_n, struct error *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->q->index.n; i++) {
        if (!calibrate_is_missing(c, i))
            continue;
        n++;
        if (c->q->model.graph->n_output == MOST_OUTPUTS)
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s cannot be looked at: the device fuses more tensors than a "
                             "model may have outputs",
                             c->q->index.edges[i].name);
        if (!quant_model_add_output(&c->q->model, c->q->index.edges[i].name))
            return error_no_memory(e, "the model", 0);
    }
    *ret_n = n;
    return 0;
}

static int calibrate_begin(struct calibration *c, rknn_context context, struct error *e)
{
    int r = c->samples->begin ? c->samples->begin(c->samples->user, context) : 0;
    return r < 0 ? error_set(e, r, "the inputs do not fit the model") : 0;
}

// The first sample, to see which tensors are there; what it saw is not kept.
static int calibrate_probe(struct calibration *c, struct client *k, struct error *e)
{
    int r = calibrate_open(c, k, e);
    if (r == 0)
        r = calibrate_begin(c, k->context, e);
    if (r == 0 && (r = calibrate_sample(k, 0)) < 0)
        error_set(e, r, "%s", k->error.text);
    for (uint32_t i = 0; i < c->q->index.n; i++)
        observer_done(&k->seen[i]);
    return r;
}

static int calibrate_open_watched(const struct calibration *c, rknn_context *ret, struct error *e)
{
    struct quant_model m;
    int r = quant_watch_make(c->q, &c->watched, c->most, &m, e);
    if (r == 0)
        r = quant_server_open(&m, ret, e);
    quant_model_done(&m);
    return r;
}

static int calibrate_prepare_watched(struct calibration *c, struct client *k, struct error *e)
{
    int r = calibrate_query_inputs(c, k->context, e);
    return r < 0 ? r : calibrate_begin(c, k->context, e);
}

static int calibrate_prepare_dumps(struct calibration *c, struct client *k, struct error *e)
{
    uint32_t missing = 0;
    int r = calibrate_probe(c, k, e);
    if (r == 0)
        r = calibrate_show_missing(c, &missing, e);
    if (r < 0 || !missing)
        return r;
    rknn_destroy(k->context);
    k->open = false;
    r = calibrate_probe(c, k, e);
    for (uint32_t i = 0; i < c->q->index.n && r == 0; i++)
        if (calibrate_is_missing(c, i))
            r = error_set(e, STATUS_MODEL_INVALID, "the server does not show tensor %s",
                          c->q->index.edges[i].name);
    return r;
}

// A server that does not know the nodes refuses the model; what else there is to refuse is found,
// and told, by the next way.
static int calibrate_prepare(struct calibration *c, struct client *k, struct error *e)
{
    struct error ignored;
    int r = quant_watch_plan(c->q, &c->watched, e);
    if (r < 0)
        return r;
    bool watches = !c->samples->by_dumps;
    c->watches = watches && calibrate_open_watched(c, &k->context, &ignored) == 0;
    if (watches && !c->watches && c->q->opening.model) { // there may be no room for two models
        quant_opening_drop(&c->q->opening);
        c->watches = calibrate_open_watched(c, &k->context, &ignored) == 0;
    }
    k->open = c->watches;
    return c->watches ? calibrate_prepare_watched(c, k, e) : calibrate_prepare_dumps(c, k, e);
}

// ---- clients ----

static int calibrate_clients(struct calibration *c, struct client **ret, uint32_t n,
                             struct error *e)
{
    struct client *clients = calloc(n, sizeof *clients);
    *ret = clients;
    if (!clients)
        return error_no_memory(e, "clients", n);
    for (uint32_t i = 0; i < n; i++) {
        clients[i].c = c;
        clients[i].seen = calloc(c->q->index.n + 1, sizeof *clients[i].seen);
        if (!clients[i].seen)
            return error_no_memory(e, "clients", n);
    }
    return 0;
}

static int calibrate_dup(struct client *clients, uint32_t n, struct error *e)
{
    int r = 0;
    for (uint32_t i = 1; i < n && r == 0; i++) {
        r = rknn_dup_context(&clients[0].context, &clients[i].context);
        clients[i].open = r == 0;
    }
    return r < 0 ? quant_server_words(r, e) : 0;
}

static void calibrate_clients_done(struct calibration *c, struct client *clients, uint32_t n)
{
    for (uint32_t i = n; clients && i-- > 0;) {
        quant_bound_done(&clients[i].bound);
        if (clients[i].open)
            rknn_destroy(clients[i].context);
        for (uint32_t k = 0; clients[i].seen && k < c->q->index.n; k++)
            observer_done(&clients[i].seen[k]);
        free(clients[i].seen);
    }
    free(clients);
}

static int calibrate_run(struct calibration *c, struct client *clients, uint32_t n,
                         uint32_t *ret_resumed, struct error *e)
{
    const rknnd_quant_samples *s = c->samples;
    uint64_t fingerprint = s->state ? calibrate_fingerprint(c->q, s) : 0;
    int r = s->state ? quant_state_load(c->q, s->state, fingerprint, ret_resumed, e) : 0;
    // A calibration that is whole needs no server.
    bool all_seen = r == 0 && s->n == *ret_resumed;
    quant_stage(s, "loading");
    // Loading one model keeps one processor at work.
    if (r == 0 && c->q->settles && !c->q->settled.known)
        quant_opening_begin(&c->q->opening, &c->q->model);
    if (r == 0 && !all_seen)
        r = calibrate_prepare(c, &clients[0], e);
    if (r == 0 && !all_seen)
        r = calibrate_dup(clients, n, e);
    quant_stage(s, "samples");
    return r < 0 ? r : calibrate_rounds(c, clients, n, *ret_resumed, fingerprint, e);
}

int quant_calibrate(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                    uint32_t *ret_resumed, struct error *e)
{
    uint32_t n = quant_clients(samples, samples->n);
    struct calibration c = {.q = q,
                            .samples = samples,
                            .n_clients = n,
                            .most = calibrate_most(q, samples),
                            .lock = PTHREAD_MUTEX_INITIALIZER};
    cleanup(free_p) atomic_bool *shown = calloc(q->index.n + 1, sizeof *shown);
    struct client *clients = NULL;
    size_t outputs = q->model.graph->n_output;
    *ret_resumed = 0;
    if (!shown)
        return error_no_memory(e, "the graph", 0);
    c.shown = shown;
    int r = calibrate_clients(&c, &clients, n, e);
    if (r == 0)
        r = calibrate_run(&c, clients, n, ret_resumed, e);
    calibrate_clients_done(&c, clients, n);
    free(c.inputs);
    free(c.input_edges);
    quant_watched_done(&c.watched);
    q->model.graph->n_output = outputs;
    return r;
}
