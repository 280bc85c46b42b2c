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
#include "quant/calibrate/quant_server.h"
#include "quant/calibrate/quant_state.h"
#include "quant/calibrate/quant_values.h"
#include "quant/calibrate/quant_watch.h"

#define ROUND         8           // samples of each client before what they saw is added up,
#define MOST_ROUND    256         // as long as a round takes less than
#define SHORT_ROUND   500000000u  // ns
#define SAVE_EVERY_NS 2000000000u // of the state
#define MOST_CLIENTS  64
#define MOST_FULL     16  // samples with histograms where bounds are what a range is chosen by
#define MOST_OUTPUTS  128 // of a model

struct calibration {
    struct rknnd_quant *q;
    const rknnd_quant_samples *samples;
    uint32_t n_inputs;
    rknn_tensor_attr *inputs;
    struct quant_edge **input_edges; // NULL: it is not to be observed
    bool *shown;                     // edges that the first dump has
    struct quant_watched watched;
    bool watches; // by nodes of the model; else by dumps
    _Atomic uint32_t next, end, done, failed;
    pthread_mutex_t lock; // of `error`, and calls of progress()
    struct error error;
};

struct client {
    struct calibration *c;
    rknn_context context;
    rknn_context brief; // the model whose nodes make no histograms; 0: there is none
    bool open;
    uint32_t sample;
    struct observer *seen;
    struct observer_scratch scratch;
    struct error error;
};

// ---- one sample ----

static int calibrate_not_finite(struct client *k, const struct quant_edge *edge, uint64_t n)
{
    return error_set(&k->error, STATUS_INPUT_INVALID,
                     "sample %u: tensor %s has %llu values that are no finite numbers (NaN or "
                     "infinite)",
                     k->sample, edge->name, (unsigned long long)n);
}

static int calibrate_observe(struct client *k, const struct quant_edge *edge,
                             const struct quant_values *v)
{
    struct observer *o = &k->seen[edge - k->c->q->index.edges];
    uint32_t channels = k->c->q->corrects_bias ? v->n_channels : 0;
    int r = o->bins ? 0 : observer_init(o, channels, &k->error);
    if (r < 0)
        return r;
    observer_add(o, v->values, v->n, o->n_channels == v->n_channels ? v->inner : 0, &k->scratch,
                 NULL);
    return o->n_bad ? calibrate_not_finite(k, edge, o->n_bad) : 0;
}

static int calibrate_take_tensor(void *user, const rknnd_tensor *t)
{
    struct client *k = user;
    const struct rknnd_quant *q = k->c->q;
    const struct quant_edge *edge = quant_index_find(&q->index, t->name);
    if (!edge || !quant_plan_place(&q->plan, &q->index, edge)->observed)
        return 0;
    k->c->shown[edge - q->index.edges] = true;
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

// Samples whose histograms are wanted are spread over all, the first one among them.
static bool calibrate_is_full(const struct calibration *c, uint32_t sample)
{
    uint64_t n = c->samples->n;
    return !sample || sample * (uint64_t)MOST_FULL / n != (sample - 1) * (uint64_t)MOST_FULL / n;
}

static int calibrate_take_seen(struct client *k, const rknn_output *output)
{
    const struct rknnd_quant *q = k->c->q;
    int32_t bad;
    int r = quant_watch_take(q, &k->c->watched, output->buf, output->size / sizeof(int32_t),
                             k->seen, &bad, &k->error);
    return bad < 0 ? r : calibrate_not_finite(k, &q->index.edges[bad], k->seen[bad].n_bad);
}

// By nodes of the model, whose output is small.
static int calibrate_watch(struct client *k, rknn_input *inputs)
{
    bool brief = k->brief && !calibrate_is_full(k->c, k->sample);
    rknn_context context = brief ? k->brief : k->context;
    rknn_output output = {0};
    int r = rknn_inputs_set(context, k->c->n_inputs, inputs);
    if (r == 0)
        r = rknn_run(context, NULL);
    if (r == 0)
        r = rknn_outputs_get(context, 1, &output, NULL);
    if (r < 0)
        return r;
    r = calibrate_take_seen(k, &output);
    rknn_outputs_release(context, 1, &output);
    return r;
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
        return error_set(&k->error, r, "sample %u: its inputs cannot be read", sample);
    r = k->c->watches ? calibrate_watch(k, inputs) : calibrate_dump(k, inputs);
    if (s->release)
        s->release(s->user, k->c->n_inputs, inputs);
    if (r < 0 && !k->error.code)
        error_set(&k->error, r, "sample %u: %s", sample, quant_server_last_words());
    return r < 0 ? k->error.code : 0;
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

static void *calibrate_work(void *user)
{
    struct client *k = user;
    struct calibration *c = k->c;
    while (!c->failed) {
        uint32_t sample = atomic_fetch_add(&c->next, 1);
        if (sample >= c->end)
            break;
        int r = calibrate_sample(k, sample);
        calibrate_tell(c, r < 0 ? &k->error : NULL);
    }
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
        if (r == 0)
            observer_merge(&q->seen[i], &k->seen[i]);
        observer_done(&k->seen[i]);
    }
    return r;
}

static int calibrate_round(struct calibration *c, struct client *clients, uint32_t n,
                           struct error *e)
{
    pthread_t threads[MOST_CLIENTS];
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
        if (clock_ns() - begun < SHORT_ROUND && round < MOST_ROUND)
            round *= 2;
        bool due = r < 0 || (from < s->n && clock_ns() - saved > SAVE_EVERY_NS);
        if (!s->state || !due || !from)
            continue;
        struct error ignored;
        int saving = quant_state_save(c->q, s->state, fingerprint, from, r < 0 ? &ignored : e);
        r = r < 0 ? r : saving;
        saved = clock_ns();
    }
    if (r == 0 && s->state && s->keeps_state)
        return done_before == s->n ? 0 : quant_state_save(c->q, s->state, fingerprint, s->n, e);
    if (r == 0 && s->state)
        unlink(s->state);
    return r;
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
        struct quant_edge *edge = quant_index_find(&c->q->index, c->inputs[i].name);
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

static int calibrate_open_watched(const struct calibration *c, bool bins, rknn_context *ret,
                                  struct error *e)
{
    struct quant_model m;
    int r = quant_watch_make(c->q, &c->watched, bins, &m, e);
    if (r == 0)
        r = quant_server_open(&m, ret, e);
    quant_model_done(&m);
    return r;
}

// Least and largest need no histograms; those of some samples serve for what there is to know.
static int calibrate_prepare_watched(struct calibration *c, struct client *k, struct error *e)
{
    bool bounds = c->q->algorithm == QUANT_ALGORITHM_NORMAL && c->samples->n > MOST_FULL;
    int r = calibrate_query_inputs(c, k->context, e);
    if (r == 0)
        r = calibrate_begin(c, k->context, e);
    return r == 0 && bounds ? calibrate_open_watched(c, false, &k->brief, e) : r;
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
    c->watches =
        !c->samples->by_dumps && calibrate_open_watched(c, true, &k->context, &ignored) == 0;
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
        if (r == 0 && clients[0].brief)
            r = rknn_dup_context(&clients[0].brief, &clients[i].brief);
    }
    return r < 0 ? quant_server_words(r, e) : 0;
}

static void calibrate_clients_done(struct calibration *c, struct client *clients, uint32_t n)
{
    for (uint32_t i = n; clients && i-- > 0;) {
        if (clients[i].open)
            rknn_destroy(clients[i].context);
        if (clients[i].brief)
            rknn_destroy(clients[i].brief);
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
    const char *key = s->key ? s->key : "";
    uint64_t fingerprint = s->state ? quant_state_fingerprint(c->q, key, s->n) : 0;
    int r = s->state ? quant_state_load(c->q, s->state, fingerprint, ret_resumed, e) : 0;
    // A calibration that is whole needs no server.
    bool all_seen = r == 0 && s->n == *ret_resumed;
    if (r == 0 && !all_seen)
        r = calibrate_prepare(c, &clients[0], e);
    if (r == 0 && !all_seen)
        r = calibrate_dup(clients, n, e);
    return r < 0 ? r : calibrate_rounds(c, clients, n, *ret_resumed, fingerprint, e);
}

int quant_calibrate(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                    uint32_t *ret_resumed, struct error *e)
{
    uint32_t n = samples->n_clients ? samples->n_clients : 2;
    struct calibration c = {.q = q, .samples = samples, .lock = PTHREAD_MUTEX_INITIALIZER};
    cleanup(free_p) bool *shown = calloc(q->index.n + 1, sizeof *shown);
    struct client *clients = NULL;
    size_t outputs = q->model.graph->n_output;
    *ret_resumed = 0;
    n = n > MOST_CLIENTS ? MOST_CLIENTS : n;
    n = n > samples->n ? samples->n : n;
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
