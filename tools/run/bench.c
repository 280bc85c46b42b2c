// Measures a model with many clients at once. Each client has a thread and a context of its own. A
// barrier lets all of them start measuring together:
//
//   client threads   open, warm up, n_warm++ ---- wait for `go` ---- measure ---- end
//   main thread      create them ---- wait for n_warm == clients, set `go` ---- join all
//
// A client that fails still passes the barrier, else the others would wait for ever; `stop` then
// ends all loops after the run that is under way. Clients write only to their own part of the
// result; the main thread reads it after the join.
#include "tools/run/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rknnd.h"
#include "tools/format/order_stats.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"

struct bench {
    const struct bench_plan *plan;
    const struct input_set *inputs;
    atomic_bool stop; // one has failed
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n_warm; // clients past their warm-up, or failed
    bool go;         // all are
    struct progress progress;
};

// One client. Owned by its thread until that is joined; then collect_times() and client_done() read
// it.
struct client {
    struct bench *bench;
    pthread_t thread;
    struct model model;
    rknn_output *outputs;
    uint64_t *latency_ns, *queue_us, *run_us; // parts of the result's, `loop` long
    uint32_t n;
    uint64_t start_ns, end_ns;
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
    int r = task_open(&c->bench->plan->task, 0, &c->model, &c->failure);
    return r ? r : prepare_outputs(c);
}

// The latency is what a program sees: inputs, run, outputs, transfers included. The query of the
// run's own times comes after it and is not part of it.
static int run_once(struct client *c, uint64_t *latency_ns, rknnd_run_info *info)
{
    const struct input_set *inputs = c->bench->inputs;
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

// The end is taken after each complete run, so that a failed run does not lengthen the wall time.
static void measure_client(struct client *c)
{
    c->start_ns = clock_ns();
    while (c->n < c->bench->plan->loop && go_on(c)) {
        rknnd_run_info info;
        c->result = run_once(c, &c->latency_ns[c->n], &info);
        if (c->result)
            break;
        c->queue_us[c->n] = info.queue_us;
        c->run_us[c->n] = info.run_us;
        c->timing = timing_of(&info);
        c->estimate_ns = info.estimate_ns;
        c->n++;
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
    model_close(&c->model);
}

// The main thread's half of the barrier, for the n threads that were created.
static void start_together(struct bench *b, uint32_t n)
{
    pthread_mutex_lock(&b->lock);
    while (b->n_warm < n)
        pthread_cond_wait(&b->changed, &b->lock);
    b->go = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

// Also joins the threads that exist when a later one could not be created. Of several failures the
// first client's is reported.
static int run_clients(struct bench *b, struct client *clients, struct error *e)
{
    uint32_t n = 0;
    int r = 0;
    while (n < b->plan->clients && r == 0) {
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
            return error_prefix(e, "client %u", i);
        }
    return 0;
}

// Slices of the result's arrays: no lock is needed while measuring.
static void init_client(struct client *c, struct bench *b, const struct bench_result *r, uint32_t i)
{
    size_t first = (size_t)i * b->plan->loop;
    *c = (struct client){.bench = b,
                         .latency_ns = r->latency_ns + first,
                         .queue_us = r->queue_us + first,
                         .run_us = r->run_us + first};
}

// Closes the gaps that clients with fewer than `loop` runs leave (Ctrl-C, a failure), then sorts.
// The destination never overtakes a later client's part, so moving in order is safe. The wall time
// runs from the first client's start to the last one's end.
static void collect_times(const struct client *clients, uint32_t n_clients, struct bench_result *r)
{
    uint64_t start = UINT64_MAX, end = 0;
    for (uint32_t i = 0; i < n_clients; i++) {
        const struct client *c = &clients[i];
        size_t size = c->n * sizeof(uint64_t);
        memmove(r->latency_ns + r->n, c->latency_ns, size);
        memmove(r->queue_us + r->n, c->queue_us, size);
        memmove(r->run_us + r->n, c->run_us, size);
        r->n += c->n;
        if (c->n == 0)
            continue;
        r->timing = c->timing;
        r->estimate_ns = c->estimate_ns;
        start = c->start_ns < start ? c->start_ns : start;
        end = c->end_ns > end ? c->end_ns : end;
    }
    r->wall_ns = end > start ? end - start : 0;
    stats_sort(r->latency_ns, r->n);
    stats_sort(r->queue_us, r->n);
    stats_sort(r->run_us, r->n);
}

static int init_result(struct bench_result *r, size_t n, struct error *e)
{
    *r = (struct bench_result){.latency_ns = calloc(n, sizeof *r->latency_ns),
                               .queue_us = calloc(n, sizeof *r->queue_us),
                               .run_us = calloc(n, sizeof *r->run_us)};
    return r->latency_ns && r->queue_us && r->run_us ? 0 : error_no_memory(e, "a measurement", 0);
}

// Clients are closed one after the other after all have ended: closing contexts is not measured.
int bench_run(const struct bench_plan *plan, const struct input_set *inputs,
              struct bench_result *ret, struct error *e)
{
    struct bench b = {.plan = plan,
                      .inputs = inputs,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    int r = init_result(ret, (size_t)plan->clients * plan->loop, e);
    if (r)
        return r;
    cleanup(free_p) struct client *clients = calloc(plan->clients, sizeof *clients);
    if (!clients)
        return error_no_memory(e, "a measurement", 0);
    for (uint32_t i = 0; i < plan->clients; i++)
        init_client(&clients[i], &b, ret, i);
    progress_start_counting(&b.progress, "runs", (uint64_t)plan->clients * plan->loop);
    r = run_clients(&b, clients, e);
    progress_end(&b.progress);
    collect_times(clients, plan->clients, ret);
    for (uint32_t i = 0; i < plan->clients; i++)
        client_done(&clients[i]);
    return r;
}

void bench_result_done(struct bench_result *r)
{
    free(r->latency_ns);
    free(r->queue_us);
    free(r->run_us);
    *r = (struct bench_result){0};
}
