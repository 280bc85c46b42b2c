// One-shot requests to a backend, without a runner: which device is there (runner_probe), what is
// in this file (runner_describe). Each uses a worker process of its own, or a thread.
//
//   query_new -> query_ask --+-- worker: START [, DESCRIBE] -> query_on_reply --+-> query_answer
//                            +-- thread: query_work ---------> query_finish ----+   query_release
//
// The timer lives as long as the query and its closing frees it. `over` says that the owner was
// answered, or does not want to be: the resources may go later than that.
#include "server/runner/runner_query.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/runner/worker_process.h"
#include "server/threads.h"
#include "worker/loaded_backend.h"

typedef void probed(void *owner, const struct error *e, const struct npu_device_info *info);
typedef void described(void *owner, const struct error *e, struct bytes json);

struct runner_query {
    struct list link; // in runner_counters.queries, while not over
    const struct runner_options *options;
    bool over; // answered or cancelled
    probed *probed;
    described *described; // or this
    void *owner;
    struct model_file model; // a copy; to probe, the backend's name without a file
    struct npu_device_info info;
    uv_timer_t timer;
    // In a worker:
    struct worker_process *worker;
    bool started; // START is answered
    // On a thread:
    struct threads *threads;
    struct task task;
    bool working;
    int status;
    struct error error;
    char *json;
};

// ---- the end -----------------------------------------------------------------------------------

// The last step of every end, on the loop.
static void on_timer_closed(uv_handle_t *handle)
{
    struct runner_query *q = container_of((uv_timer_t *)handle, struct runner_query, timer);
    if (q->working)
        return; // abandoned: the thread that hangs still uses it
    model_file_done(&q->model);
    free(q->json);
    free(q);
}

static void close_timer(void *owner)
{
    struct runner_query *q = owner;
    uv_close((uv_handle_t *)&q->timer, on_timer_closed);
}

// Frees what answers: a worker at once, a thread when it has finished. While it works,
// query_finish() comes back here.
static void query_release(struct runner_query *q)
{
    if (!q->threads) {
        worker_process_free(q->worker);
        close_timer(q);
    } else if (!q->working) {
        threads_free(q->threads, close_timer, q);
    }
}

// No callback comes after this.
static void query_end(struct runner_query *q)
{
    q->over = true;
    list_remove(&q->link);
}

// Calls the owner, at most once. The error gets a prefix that says what was asked.
static void query_answer(struct runner_query *q, struct error *e, struct bytes json)
{
    if (q->over)
        return;
    query_end(q);
    if (e)
        error_prefix(e, "%s %s", q->described ? "describing" : "asking backend", q->model.name);
    if (q->described)
        q->described(q->owner, e, json);
    else
        q->probed(q->owner, e, e ? NULL : &q->info);
}

// A process can be killed. A thread cannot: it is abandoned, and keeps the query's memory.
static void on_timeout(uv_timer_t *timer)
{
    struct runner_query *q = container_of(timer, struct runner_query, timer);
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "no answer after %u ms", q->options->load_timeout_ms);
    if (q->threads) {
        log_error("%s: a thread hangs", q->model.name);
        threads_abandon(q->threads, close_timer, q);
        query_answer(q, &e, (struct bytes){0});
    } else {
        query_answer(q, &e, (struct bytes){0});
        query_release(q);
    }
}

void runner_cancel_all(const struct runner_options *options)
{
    struct runner_query *q;
    while ((q = list_first(&options->counters->queries, struct runner_query, link))) {
        query_end(q);
        query_release(q);
    }
}

// ---- in a worker -------------------------------------------------------------------------------

// DESCRIBE is sent right behind START, but answers come in order.
static bool query_expects(void *owner, const struct frame_header *f)
{
    struct runner_query *q = owner;
    return f->type == (q->started ? MESSAGE_WORKER_DESCRIBE : MESSAGE_WORKER_START);
}

// The failure belongs to the frame and is const; query_answer() adds its prefix to a copy.
static int query_on_reply(void *owner, const struct frame_header *f, const struct error *failure,
                          const union message_any *m, struct bytes payload, struct error *e)
{
    struct runner_query *q = owner;
    struct error why;
    if (!failure && f->type == MESSAGE_WORKER_START) {
        int r = worker_process_take_device(&m->WORKER_START_reply, &q->info, e);
        q->started = true;
        if (r < 0 || q->described)
            return r; // the other answer is still to come
    }
    if (failure)
        why = *failure;
    query_answer(q, failure ? &why : NULL, payload);
    query_release(q);
    return 0;
}

static void on_dead(void *owner, const struct error *why)
{
    struct runner_query *q = owner;
    struct error e = *why;
    q->options->counters->worker_deaths++;
    query_answer(q, &e, (struct bytes){0});
    query_release(q);
}

static const struct worker_events worker_events = {
    .expects = query_expects,
    .on_reply = query_on_reply,
    .on_dead = on_dead,
};

// Gives the model's descriptor away with the frame.
static int send_describe(struct runner_query *q, struct error *e)
{
    rknnd_WorkerDescribe m = {.size = q->model.size};
    message_set_text(m.name, q->model.name);
    message_set_text(m.options, q->model.options);
    struct frame_out *f = message_frame(MESSAGE_WORKER_DESCRIBE, 0, 2, rknnd_WorkerDescribe_fields,
                                        &m, NULL, 0, NULL, NULL);
    if (!f)
        return error_no_memory(e, "a message", sizeof m);
    f->fds[0] = steal_fd(&q->model.fd);
    f->n_fds = 1;
    worker_process_send(q->worker, f);
    return 0;
}

static int ask_worker(struct runner_query *q, struct error *e)
{
    int r = worker_process_new(q->options, q->model.name, &worker_events, q, &q->worker, e);
    if (r < 0)
        return r;
    return q->described ? send_describe(q, e) : 0;
}

// ---- on a thread -------------------------------------------------------------------------------

// On the thread. The backend is loaded for this one question and closed again.
static void query_work(struct task *t)
{
    struct runner_query *q = container_of(t, struct runner_query, task);
    const struct runner_options *o = q->options;
    struct loaded_backend g = {0};
    int r = loaded_backend_open(&g, o->module_dir, o->backend, o->backend_options, &q->error);
    if (r == 0)
        q->info = *g.backend->device_info(g.device);
    if (r == 0 && q->described)
        r = loaded_backend_describe(&g, &q->model, &q->json, &q->error);
    loaded_backend_close(&g);
    q->status = r;
    threads_post(t->threads, t);
}

static void query_finish(struct task *t)
{
    struct runner_query *q = container_of(t, struct runner_query, task);
    struct bytes json = {(const uint8_t *)q->json, q->json ? strlen(q->json) : 0};
    q->working = false;
    query_answer(q, q->status < 0 ? &q->error : NULL, json);
    query_release(q);
}

static int ask_thread(struct runner_query *q, struct error *e)
{
    int r = threads_new(q->options->loop, &q->threads, e);
    if (r < 0)
        return r;
    q->task.work = query_work;
    q->task.finish = query_finish;
    q->working = true;
    threads_do(q->threads, &q->task);
    return 0;
}

// ---- asking ------------------------------------------------------------------------------------

static int query_new(const struct runner_options *options, const struct model_file *model,
                     void *owner, struct runner_query **ret, struct error *e)
{
    struct runner_query *q = calloc(1, sizeof *q);
    if (!q)
        return error_no_memory(e, "a question to the backend", sizeof *q);
    *q = (struct runner_query){.options = options, .owner = owner};
    int r = model_file_copy(&q->model, model, e);
    if (r < 0)
        free(q);
    else
        *ret = q;
    return r;
}

// A query is in runner_counters.queries only once it is under way, so that runner_cancel_all()
// finds those that can be cancelled.
static int query_ask(struct runner_query *q, struct error *e)
{
    const struct runner_options *o = q->options;
    uv_timer_init(o->loop, &q->timer);
    int r = (o->threads ? ask_thread : ask_worker)(q, e);
    if (r < 0) {
        query_release(q);
        return r;
    }
    uv_timer_start(&q->timer, on_timeout, o->load_timeout_ms, 0);
    list_append(&o->counters->queries, &q->link);
    return 0;
}

// The query's "model" has no file: its name is the backend's, for messages.
int runner_probe(const struct runner_options *options, probed *got, void *owner, struct error *e)
{
    struct runner_query *q;
    int r =
        query_new(options, &(struct model_file){.fd = -1, .name = options->backend}, owner, &q, e);
    if (r < 0)
        return r;
    q->probed = got;
    return query_ask(q, e);
}

int runner_describe(const struct runner_options *options, const struct model_file *model,
                    described *got, void *owner, struct error *e)
{
    struct runner_query *q;
    int r = query_new(options, model, owner, &q, e);
    if (r < 0)
        return r;
    q->described = got;
    return query_ask(q, e);
}
