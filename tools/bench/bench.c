// Measures models with many clients at once. Each client has a thread and a context of its own. A
// barrier lets all of them start measuring together:
//
//   client threads   open, warm up, n_warm++ ---- wait for `go` ---- measure ---- end
//   main thread      create them ---- wait for n_warm == clients, set `go` ---- join all
//
// A client that fails still passes the barrier, else the others would wait for ever; `stop` then
// ends all loops after the run that is under way. Clients keep their own samples; the main thread
// reads them after the join.
#include "tools/bench/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "rknnd.h"
#include "tools/format/order_stats.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"

#define LOOK_NS 50000000 // between looks whether to go on

// When runs of a model are asked for, with a rate.
struct asking {
    double next_s;         // since all began
    uint64_t random_state; // xorshift
};

struct bench {
    const struct bench_plan *plan;
    uint32_t n_clients; // of all models
    atomic_bool stop;   // one has failed
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n_warm; // clients past their warm-up, or failed
    bool go;         // all are
    uint64_t began_ns;
    struct asking asking[BENCH_MODELS];
    struct progress progress;
};

// One client. Owned by its thread until that is joined; then collect_times() and client_done() read
// it.
struct client {
    struct bench *bench;
    pthread_t thread;
    struct model model;
    rknn_output *outputs;
    struct bench_sample *samples;
    uint32_t n, room;
    uint32_t of, number; // model, and which of its clients
    uint64_t end_ns;
    struct timing timing;
    uint64_t estimate_ns;
    int result;
    struct error failure;
};

// Buffers for the outputs, allocated once, so that the measured loop does not allocate.
static int prepare_outputs(struct client *c)
{
    const struct model *m = &c->model;
    c->outputs = calloc(m->n_outputs ? m->n_outputs : 1, sizeof *c->outputs);
    if (!c->outputs)
        return error_no_memory(&c->failure, "a measurement", 0);
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        bool want_float = c->bench->plan->want_float;
        size_t size = want_float ? m->outputs[i].n_elems * sizeof(float) : m->outputs[i].size;
        c->outputs[i] = (rknn_output){.index = i,
                                      .want_float = want_float,
                                      .is_prealloc = 1,
                                      .buf = malloc(size ? size : 1),
                                      .size = (uint32_t)size};
        if (!c->outputs[i].buf)
            return error_no_memory(&c->failure, "a measurement", 0);
    }
    return 0;
}

static int prepare_clients(struct client *c)
{
    struct task task = c->bench->plan->task;
    task.model = c->bench->plan->models[c->of].path;
    int r = task_open(&task, 0, &c->model, &c->failure);
    return r ? r : prepare_outputs(c);
}

// The latency is what a program sees: inputs, run, outputs, transfers included. The query of the
// run's own times comes after it and is not part of it.
static int run_once(struct client *c, uint64_t *latency_ns, rknnd_run_info *info)
{
    const struct input_set *inputs = &c->bench->plan->models[c->of].inputs;
    const struct model *m = &c->model;
    uint64_t start = clock_ns();
    int r = input_set_give(inputs, m->context);
    if (r == RKNN_SUCC)
        r = rknn_run(m->context, NULL);
    if (r == RKNN_SUCC)
        r = rknn_outputs_get(m->context, m->n_outputs, c->outputs, NULL);
    *latency_ns = clock_ns() - start;
    *info = (rknnd_run_info){.struct_size = sizeof *info};
    if (r == RKNN_SUCC)
        r = rknnd_get_run_info(m->context, info);
    return r < 0 ? rknn_error_model(&c->failure, r, m->path) : 0;
}

// Looked at between runs: a run that is under way is never cut short.
static bool go_on(const struct client *c)
{
    return c->result == 0 && !atomic_load(&c->bench->stop) && !interrupt_seen();
}

// In (0, 1].
static double random_part(struct asking *a)
{
    uint64_t x = a->random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    a->random_state = x;
    return ((double)(x >> 11) + 1) / 9007199254740992.0;
}

// When the next run of the model is asked for, whoever does it: intervals are exponentially
// distributed.
static uint64_t next_asked(struct bench *b, uint32_t model)
{
    struct asking *a = &b->asking[model];
    pthread_mutex_lock(&b->lock);
    a->next_s -= log(random_part(a)) / b->plan->rate;
    uint64_t at = b->began_ns + (uint64_t)(a->next_s * 1e9);
    pthread_mutex_unlock(&b->lock);
    return at;
}

// False: the measurement is over by then, or before.
static bool wait_until(const struct client *c, uint64_t at_ns)
{
    for (uint64_t now = clock_ns(); now < at_ns; now = clock_ns()) {
        uint64_t left = at_ns - now, step = left < LOOK_NS ? left : LOOK_NS;
        if (!go_on(c))
            return false;
        clock_sleep_until((now + step) / 1000);
    }
    return go_on(c);
}

// When the run that is next begins for whoever asks for it; it is time. False: there is none.
static bool await_next(const struct client *c, uint64_t *ret_at_ns)
{
    struct bench *b = c->bench;
    uint64_t at = b->plan->rate > 0 ? next_asked(b, c->of) : clock_ns();
    // What is asked for can be far behind the clock: the time ends by both.
    uint64_t now = clock_ns(), latest = at > now ? at : now;
    bool late = b->plan->seconds > 0 && (double)(latest - b->began_ns) >= b->plan->seconds * 1e9;
    *ret_at_ns = at;
    return !late && wait_until(c, at);
}

// The latency counts from `at_ns` on. Room is made before that.
static int measure_run(struct client *c, uint64_t at_ns)
{
    rknnd_run_info info;
    struct bench_sample s = {
        .model = c->of, .client = c->number, .start_ns = at_ns - c->bench->began_ns};
    uint64_t late_ns = clock_ns() - at_ns;
    int r = run_once(c, &s.latency_ns, &info);
    if (r)
        return r;
    if (c->bench->plan->rate > 0) {
        s.late_ns = late_ns;
        s.latency_ns += late_ns;
    }
    s.queue_us = info.queue_us;
    s.run_us = info.run_us;
    c->timing = timing_of(&info);
    c->estimate_ns = info.estimate_ns;
    c->samples[c->n++] = s;
    return 0;
}

// The end is taken after each complete run, so that a failed run does not lengthen the wall time.
static void measure_client(struct client *c)
{
    uint64_t at_ns;
    while (c->n < c->bench->plan->loop && go_on(c)) {
        c->result = array_reserve(c->samples, c->room, c->n + 1, "times", &c->failure);
        if (c->result || !await_next(c, &at_ns))
            break;
        c->result = measure_run(c, at_ns);
        if (c->result)
            break;
        c->end_ns = clock_ns();
        progress_step(&c->bench->progress);
    }
}

// The client's half of the barrier.
static void wait_for_go(struct bench *b)
{
    pthread_mutex_lock(&b->lock);
    b->n_warm++;
    pthread_cond_broadcast(&b->changed);
    while (!b->go)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

// The warm-up's times are dropped: the first runs load weights and fill caches.
static void *client_thread(void *argument)
{
    struct client *c = argument;
    uint64_t latency;
    rknnd_run_info info;
    c->result = prepare_clients(c);
    for (uint32_t i = 0; i < c->bench->plan->warmup && go_on(c); i++)
        c->result = run_once(c, &latency, &info);
    if (c->result)
        atomic_store(&c->bench->stop, true);
    wait_for_go(c->bench);
    measure_client(c);
    if (c->result)
        atomic_store(&c->bench->stop, true);
    return NULL;
}

static void client_done(struct client *c)
{
    for (uint32_t i = 0; c->outputs && i < c->model.n_outputs; i++)
        free(c->outputs[i].buf);
    free(c->outputs);
    free(c->samples);
    model_close(&c->model);
}

// The main thread's half of the barrier, for the n threads that were created.
static void start_together(struct bench *b, uint32_t n)
{
    pthread_mutex_lock(&b->lock);
    while (b->n_warm < n)
        pthread_cond_wait(&b->changed, &b->lock);
    b->go = true;
    b->began_ns = clock_ns();
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

// Also joins the threads that exist when a later one could not be created. Of several failures the
// first client's is reported.
static int run_clients(struct bench *b, struct client *clients, struct error *e)
{
    uint32_t n = 0;
    int r = 0;
    while (n < b->n_clients && r == 0) {
        r = pthread_create(&clients[n].thread, NULL, client_thread, &clients[n]);
        n += r == 0;
    }
    if (r)
        atomic_store(&b->stop, true);
    start_together(b, n);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(clients[i].thread, NULL);
    if (r)
        return error_set(e, STATUS_FAIL, "thread of client %u: %s", n, strerror(r));
    for (uint32_t i = 0; i < n; i++)
        if (clients[i].result) {
            *e = clients[i].failure;
            return error_prefix(e, "client %u", clients[i].number);
        }
    return 0;
}

static int init_result(struct bench_result *r, uint32_t model, size_t n, struct error *e)
{
    size_t room = n ? n : 1;
    *r = (struct bench_result){.model = model,
                               .latency_ns = calloc(room, sizeof *r->latency_ns),
                               .queue_us = calloc(room, sizeof *r->queue_us),
                               .run_us = calloc(room, sizeof *r->run_us),
                               .samples = calloc(room, sizeof *r->samples)};
    return r->latency_ns && r->queue_us && r->run_us && r->samples
               ? 0
               : error_no_memory(e, "a measurement", n);
}

static void add_client(const struct client *c, struct bench_result *r)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const struct bench_sample *s = &c->samples[i];
        r->latency_ns[r->n] = s->latency_ns;
        r->queue_us[r->n] = s->queue_us;
        r->run_us[r->n] = s->run_us;
        r->samples[r->n++] = *s;
    }
    r->timing = c->timing;
    // Runs of several models have none in common.
    r->estimate_ns = r->model == BENCH_TOTAL && c->bench->plan->n_models > 1 ? 0 : c->estimate_ns;
}

static bool is_of(const struct client *c, uint32_t model)
{
    return model == BENCH_TOTAL || c->of == model;
}

// The wall time runs from the first start to the last end.
static int collect_times(const struct client *clients, const struct bench *b, uint32_t model,
                         struct bench_result *r, struct error *e)
{
    uint64_t start = UINT64_MAX, end = 0;
    size_t n = 0;
    for (uint32_t i = 0; i < b->n_clients; i++)
        n += is_of(&clients[i], model) ? clients[i].n : 0;
    int status = init_result(r, model, n, e);
    for (uint32_t i = 0; i < b->n_clients && status == 0; i++) {
        const struct client *c = &clients[i];
        if (c->n == 0 || !is_of(c, model))
            continue;
        uint64_t began = b->began_ns + c->samples[0].start_ns;
        start = began < start ? began : start;
        end = c->end_ns > end ? c->end_ns : end;
        add_client(c, r);
    }
    r->wall_ns = end > start ? end - start : 0;
    stats_sort(r->latency_ns, r->n);
    stats_sort(r->queue_us, r->n);
    stats_sort(r->run_us, r->n);
    return status;
}

// What all did, then what each model's did. Of a model that nobody ran n is 0.
static int collect_all(const struct client *clients, const struct bench *b,
                       struct bench_result *ret, struct bench_result *ret_each, struct error *e)
{
    int r = collect_times(clients, b, BENCH_TOTAL, ret, e);
    for (uint32_t i = 0; ret_each && i < b->plan->n_models && r == 0; i++)
        r = collect_times(clients, b, i, &ret_each[i], e);
    return r;
}

static void begin_asking(struct bench *b)
{
    for (uint32_t i = 0; i < b->plan->n_models; i++)
        b->asking[i].random_state =
            ((uint64_t)b->plan->seed + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

// Clients are closed one after the other after all have ended: closing contexts is not measured.
int bench_run(const struct bench_plan *plan, struct bench_result *ret,
              struct bench_result *ret_each, struct error *e)
{
    struct bench b = {.plan = plan,
                      .n_clients = plan->clients * plan->n_models,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    *ret = (struct bench_result){0};
    cleanup(free_p) struct client *clients = calloc(b.n_clients, sizeof *clients);
    if (!clients)
        return error_no_memory(e, "a measurement", 0);
    for (uint32_t i = 0; i < b.n_clients; i++)
        clients[i] =
            (struct client){.bench = &b, .of = i % plan->n_models, .number = i / plan->n_models};
    begin_asking(&b);
    progress_start_counting(&b.progress, "runs",
                            plan->seconds > 0 ? 0 : (uint64_t)b.n_clients * plan->loop);
    int r = run_clients(&b, clients, e);
    progress_end(&b.progress);
    struct error ignored;
    int collected = collect_all(clients, &b, ret, ret_each, r ? &ignored : e);
    for (uint32_t i = 0; i < b.n_clients; i++)
        client_done(&clients[i]);
    return r ? r : collected;
}

void bench_result_done(struct bench_result *r)
{
    free(r->latency_ns);
    free(r->queue_us);
    free(r->run_us);
    free(r->samples);
    *r = (struct bench_result){0};
}
