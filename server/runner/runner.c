// Runners: their contexts, and what these do next.
//
// Here is what the two kinds of runner (process, thread) have in common. Each context does one
// thing at a time, and runner_context_advance() decides what is next, in this order: open the
// context, fetch layer times, run the first waiting job. A kind answers through
// runner_context_opened(), _ran() and so on, from inside the call or later, and each answer
// advances the context again.
//
//            first need                answer                worker lost
//     CLOSED -----------> OPENING -----------------> OPEN -----------------> CLOSED
//                            | error                                           ^
//                            v               another job is submitted          |
//                          BROKEN ---------------------------------------------+
//
// Callbacks of a runner's owner come in the middle of this, and may submit, cancel and free. So
// `busy` stays set while an owner is called, lists are walked from their start again after each
// call, and a context that is freed while it is busy is closed when its business ends. All of it is
// on the loop's thread.
#include "server/runner/runner.h"

#include <assert.h>

#include "base/cleanup.h"
#include "server/runner/runner_kind.h"

struct profile_request {
    struct list link;
    void (*got)(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                struct bytes layers);
    void *owner;
};

// ---- life of a runner --------------------------------------------------------------------------

// The kind is chosen by --isolation; afterwards nobody asks for it.
int runner_new(const struct runner_options *options, const struct model_file *model,
               const struct runner_events *events, void *owner, struct runner **ret,
               struct error *e)
{
    return (options->threads ? runner_thread_new : runner_process_new)(options, model, events,
                                                                       owner, ret, e);
}

// Buffers of worker processes are shared memory; threads use plain memory.
static int take_parts(struct runner *runner, const struct model_file *model, struct error *e)
{
    runner->buffers =
        buffer_pool_new(!runner->options->threads, &runner->options->counters->buffers);
    if (!runner->buffers)
        return error_no_memory(e, "a runner", sizeof *runner);
    return model_file_copy(&runner->model, model, e);
}

static void free_parts(struct runner *runner)
{
    buffer_pool_free(runner->buffers);
    model_file_done(&runner->model);
    model_info_done(&runner->info);
}

int runner_init(struct runner *runner, const struct runner_kind *kind,
                const struct runner_options *options, const struct model_file *model,
                const struct runner_events *events, void *owner, struct error *e)
{
    *runner = (struct runner){.kind = kind,
                              .options = options,
                              .events = events,
                              .owner = owner,
                              .model = {.fd = -1},
                              .deadline_ms = RUNNER_NEVER,
                              .alarm_ms = RUNNER_NEVER};
    list_init(&runner->contexts);
    int r = take_parts(runner, model, e);
    if (r < 0) {
        free_parts(runner);
        return r;
    }
    uv_timer_init(options->loop, &runner->timer);
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct runner *runner = container_of((uv_timer_t *)handle, struct runner, timer);
    free_parts(runner);
    runner->timer_closed(runner);
}

// The timer belongs to the loop until it is closed, and so does the struct around it.
void runner_done(struct runner *runner, void (*closed)(struct runner *runner))
{
    runner->timer_closed = closed;
    uv_close((uv_handle_t *)&runner->timer, on_timer_closed);
}

// The kind ends in the background: it may have to wait for a process or a thread.
void runner_free(struct runner *runner)
{
    if (!runner)
        return;
    struct runner_context *c;
    list_for_each (c, &runner->contexts, link)
        assert(c->freed);
    runner->kind->end(runner);
}

const struct model_info *runner_info(const struct runner *runner)
{
    return &runner->info;
}

struct buffer_pool *runner_buffers(struct runner *runner)
{
    return runner->buffers;
}

pid_t runner_worker(const struct runner *runner)
{
    return runner->worker;
}

uint32_t runner_deaths(const struct runner *runner)
{
    return runner->deaths;
}

// ---- contexts ----------------------------------------------------------------------------------

// The kind's struct is allocated, which begins with the runner_context. It opens as soon as the
// model is loaded.
int runner_context_new(struct runner *runner, void (*opened)(void *owner, const struct error *e),
                       void *owner, struct runner_context **ret, struct error *e)
{
    if (runner->failed) {
        if (e)
            *e = runner->failure;
        return runner->failure.code;
    }
    struct runner_context *c = calloc(1, runner->kind->context_size);
    if (!c)
        return error_no_memory(e, "a context", runner->kind->context_size);
    c->runner = runner;
    c->opened = opened;
    c->owner = owner;
    list_init(&c->waiting);
    list_init(&c->profiles);
    list_append(&runner->contexts, &c->link);
    *ret = c;
    runner_context_advance(c);
    return 0;
}

void runner_profile_cancel(struct runner_context *c)
{
    struct profile_request *p;
    while (c && (p = list_first(&c->profiles, struct profile_request, link))) {
        list_remove(&p->link);
        free(p);
    }
}

// A busy context is closed later, by whatever ends its business; its owner hears no more of it.
void runner_context_free(struct runner_context *c)
{
    if (!c)
        return;
    assert(!c->job && list_empty(&c->waiting));
    runner_profile_cancel(c);
    c->freed = true;
    c->opened = NULL;
    runner_context_advance(c);
}

// References that a run still holds are dropped with the context.
void runner_context_done(struct runner_context *c)
{
    list_remove(&c->link);
    buffer_unref(c->buffer);
    binding_unref(c->binding);
}

// ---- jobs --------------------------------------------------------------------------------------

// As above; a failure is kept for jobs that are submitted while the context is broken.
void runner_context_opened(struct runner_context *c, const struct error *e)
{
    c->losses = list_empty(&c->profiles) ? 0 : c->losses; // until these have come, too
    c->state = e ? CONTEXT_BROKEN : CONTEXT_OPEN;
    if (e)
        c->failure = *e;
    __typeof__(c->opened) opened = steal_ptr(c->opened);
    if (opened)
        opened(c->owner, e);
    c->busy = false;
    runner_context_advance(c);
}

void runner_profile(struct runner_context *c,
                    void (*got)(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                                struct bytes layers),
                    void *owner)
{
    struct profile_request *p = malloc(sizeof *p);
    if (!p) {
        struct error e;
        error_no_memory(&e, "a profile", sizeof *p);
        got(owner, &e, NULL, (struct bytes){0});
        return;
    }
    *p = (struct profile_request){.got = got, .owner = owner};
    list_append(&c->profiles, &p->link);
    runner_context_advance(c);
}

// Answers the oldest request. It is removed and freed first, because got() may ask again or cancel.
static void answer_profile(struct runner_context *c, const struct error *e,
                           const rknnd_ProfileReply *reply, struct bytes layers)
{
    struct profile_request *p = list_first(&c->profiles, struct profile_request, link);
    if (!p)
        return;
    struct profile_request request = *p;
    list_remove(&p->link);
    free(p);
    request.got(request.owner, e, reply, layers);
}

void runner_context_profiled(struct runner_context *c, const struct error *e,
                             const rknnd_ProfileReply *reply, struct bytes layers)
{
    c->losses = 0;
    answer_profile(c, e, reply, layers);
    c->busy = false;
    runner_context_advance(c);
}

// ---- what a context does next ------------------------------------------------------------------

// Tells one of those who wait (opening, job, profile) that it will not happen. False: nobody waits.
// One at a time, because the callback may change the lists.
static bool fail_one(struct runner_context *c, const struct error *e)
{
    struct runner_job *job = list_first(&c->waiting, struct runner_job, link);
    __typeof__(c->opened) opened = steal_ptr(c->opened);
    c->busy = true;
    if (opened) {
        opened(c->owner, e);
    } else if (job) {
        list_remove(&job->link);
        runner_job_finish(job, e);
    } else if (!list_empty(&c->profiles)) {
        answer_profile(c, e, NULL, (struct bytes){0});
    } else {
        c->busy = false;
        return false;
    }
    c->busy = false;
    return true;
}

static void open_context(struct runner_context *c)
{
    c->state = CONTEXT_OPENING;
    runner_context_make_busy(c, c->runner->options->load_timeout_ms);
    c->runner->kind->open(c);
}

// Starts one operation of an open context. False: there is nothing to do. Profiles come before
// jobs, since the next run would overwrite the layer times.
static bool use_context(struct runner_context *c)
{
    static const struct error stopped = {STATUS_FAIL, "the job was stopped before it began"};
    struct runner_job *job = list_first(&c->waiting, struct runner_job, link);
    if (!list_empty(&c->profiles)) {
        runner_context_make_busy(c, c->runner->options->load_timeout_ms);
        c->runner->kind->profile(c);
    } else if (job && job->stopped) {
        fail_one(c, &stopped);
    } else if (job) {
        runner_context_start(c, job);
    } else {
        return false;
    }
    return true;
}

// After a worker's death a context is opened again when somebody wants something of it: thousands
// may be idle, and opening one costs a message.
static bool is_wanted(const struct runner_context *c)
{
    return c->opened || !list_empty(&c->waiting) || !list_empty(&c->profiles);
}

// One step of runner_context_advance(), by the state of runner and context. False: nothing to do
// now.
static bool runner_context_step(struct runner_context *c)
{
    if (c->runner->failed)
        return fail_one(c, &c->runner->failure);
    if (c->state == CONTEXT_BROKEN)
        return fail_one(c, &c->failure);
    if (!c->runner->ready)
        return false;
    if (c->state == CONTEXT_OPEN)
        return use_context(c);
    if (!is_wanted(c))
        return false;
    open_context(c);
    return true;
}

// Steps until the context is busy or has nothing to do. An operation may be answered from inside
// its step and call this again through runner_context_*(): the outer call continues, the inner one
// returns.
void runner_context_advance(struct runner_context *c)
{
    if (c->advancing)
        return;
    c->advancing = true;
    while (!c->busy && !c->freed && runner_context_step(c))
        continue;
    c->advancing = false;
    if (c->freed && !c->busy)
        c->runner->kind->close(c);
}

// Advances every context. A step may free any context, so no iterator survives it: all are moved to
// a list of their own and taken from its front.
void runner_advance_all(struct runner *runner)
{
    struct list todo;
    struct runner_context *c;
    list_init(&todo);
    while ((c = list_first(&runner->contexts, struct runner_context, link))) {
        list_remove(&c->link);
        list_append(&todo, &c->link);
    }
    while ((c = list_first(&todo, struct runner_context, link))) {
        list_remove(&c->link);
        list_append(&runner->contexts, &c->link);
        runner_context_advance(c);
    }
}

// Not before on_loaded(): until then the owner expects nothing else.
void runner_tell_ready(struct runner *runner, bool ready)
{
    if (runner->loaded && runner->events->on_ready)
        runner->events->on_ready(runner->owner, ready);
}

void runner_is_ready(struct runner *runner)
{
    runner->ready = true;
    if (runner->loaded) {
        runner_tell_ready(runner, true);
    } else {
        runner->loaded = true;
        runner->events->on_loaded(runner->owner, NULL);
    }
    runner_advance_all(runner);
}

// The owner is told that it is ready, because what it holds back would otherwise wait for ever: it
// is submitted, and fails.
void runner_has_failed(struct runner *runner, const struct error *e)
{
    runner->ready = false;
    runner->failed = true;
    runner->failure = *e;
    if (runner->loaded) {
        runner_tell_ready(runner, true);
    } else {
        runner->loaded = true;
        runner->events->on_loaded(runner->owner, e);
    }
    runner_advance_all(runner);
}
