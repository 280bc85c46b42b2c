// Runners: contexts, the order of their jobs, deadlines.
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
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "server/runner/runner_kind.h"
#include "server/turns.h"

#define ATTEMPTS 2
#define LATE_MS  100 // a timer that fires later than that shows that the loop did not run

struct profile_request {
    struct list link;
    void (*got)(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                struct bytes layers);
    void *owner;
};

static void runner_context_advance(struct runner_context *c);
static void runner_context_resume(struct runner_context *c, bool stop);

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

// ---- what a job does ---------------------------------------------------------------------------

// What a request does to a job, depending on its state:
//
//          | next     | stop                  | fail     | cancel
//  OUT     | -        | -                     | -        | -
//  QUEUED  | -        | ends at its turn      | -        | out
//  RUNNING | -        | ends soon             | -        | ends soon, out
//  WAITING | resumes  | ends soon             | ends     | ends soon, out
//
// runner_job_yield() asks a RUNNING one to become WAITING, and does nothing else.
enum job_state {
    JOB_OUT,     // the runner does not have it: its context may not be there
    JOB_QUEUED,  // for its context, or for another worker
    JOB_RUNNING, // the worker has it
    JOB_WAITING, // so it does, and has sent a part or a call, or has yielded
};

// The functions below may be called in any state of a job, so each asks here first.
static enum job_state state_of(const struct runner_job *job)
{
    const struct runner_context *c = job->context;
    if (!job->submitted)
        return JOB_OUT;
    if (c->job != job)
        return JOB_QUEUED;
    return c->waits ? JOB_WAITING : JOB_RUNNING;
}

// The one way out for a job that is in no list of the runner any more. done() may free the job.
static void runner_job_finish(struct runner_job *job, const struct error *e)
{
    job->submitted = false;
    job->done(job, e);
}

// ---- deadlines ---------------------------------------------------------------------------------

// One timer serves all deadlines of a runner. It is only ever moved to an earlier time: when it
// fires and finds nothing overdue, it is set to the next deadline. So a job that finishes in time
// costs one comparison.
static void on_timer(uv_timer_t *timer);

// Makes the timer fire at `at_ms` at the latest.
static void alarm_at(struct runner *runner, uint64_t at_ms)
{
    uint64_t now = uv_now(runner->options->loop);
    if (at_ms >= runner->alarm_ms)
        return;
    runner->alarm_ms = at_ms;
    uv_timer_start(&runner->timer, on_timer, at_ms > now ? at_ms - now : 0, 0);
}

static struct runner_context *find_overdue(struct runner *runner, uint64_t now)
{
    struct runner_context *c;
    list_for_each (c, &runner->contexts, link)
        if (c->busy && !c->overdue && c->deadline_ms <= now)
            return c;
    return NULL;
}

// Ends a job that waits at its gate: the run is told to stop, and its owner hears the reason. The
// context stays busy until the run has really ended.
static void end_waiting(struct runner_context *c, const struct error *e)
{
    struct runner_job *job = steal_ptr(c->job);
    runner_context_resume(c, true);
    if (job)
        runner_job_finish(job, e);
}

// The client did not take a part of a dump, or did not compute a custom operator, in time.
static void end_late(struct runner_context *c)
{
    const struct runner *runner = c->runner;
    struct error e;
    if (c->waits == WAITS_WITH_PART) {
        error_set(&e, STATUS_TIMEOUT, "model %s: a part of the dump was not taken for %u ms",
                  runner->model.name, c->timeout_ms);
    } else {
        const struct custom_node *n = &runner->info.custom->nodes[c->called];
        error_set(&e, STATUS_TIMEOUT,
                  "model %s: operator %s (node %s) was not computed by its program within %u ms",
                  runner->model.name, n->op, n->name, c->timeout_ms);
    }
    end_waiting(c, &e);
}

// A daemon that was stopped or starved of CPU time could not notice what was done in time, and its
// workers may have been stopped with it. All deadlines start afresh.
static void excuse_lateness(struct runner *runner, uint64_t now)
{
    struct runner_context *c;
    if (now < runner->alarm_ms || now - runner->alarm_ms < LATE_MS)
        return;
    list_for_each (c, &runner->contexts, link)
        if (c->deadline_ms != RUNNER_NEVER)
            c->deadline_ms = now + c->limit_ms;
    if (runner->deadline_ms != RUNNER_NEVER)
        runner->deadline_ms = now + runner->limit_ms;
}

// Overdue: the runner itself first (loading, the pause after a death), then its contexts, then the
// timer is set to the next deadline. A callback may close the timer.
static void on_timer(uv_timer_t *timer)
{
    struct runner *runner = container_of(timer, struct runner, timer);
    uint64_t now = uv_now(runner->options->loop);
    struct runner_context *c;

    turns_mark(timer->loop, "deadlines of runs");
    excuse_lateness(runner, now);
    runner->alarm_ms = RUNNER_NEVER;
    if (runner->deadline_ms <= now) {
        runner->deadline_ms = RUNNER_NEVER;
        runner->kind->overdue(runner, NULL);
    }
    while ((c = find_overdue(runner, now))) {
        if (c->waits) {
            end_late(c);
        } else {
            c->overdue = true;
            runner->kind->overdue(runner, c);
        }
    }
    if (uv_is_closing((uv_handle_t *)timer))
        return;
    list_for_each (c, &runner->contexts, link)
        if (c->busy && !c->overdue)
            alarm_at(runner, c->deadline_ms);
    alarm_at(runner, runner->deadline_ms);
}

// limit_ms is kept so that excuse_lateness() can grant the whole time again. It has no meaning for
// RUNNER_NEVER.
void runner_set_deadline(struct runner *runner, uint64_t at_ms)
{
    runner->deadline_ms = at_ms;
    runner->limit_ms = at_ms - uv_now(runner->options->loop);
    alarm_at(runner, at_ms);
}

// Starts an operation of the context and its deadline.
static void make_busy(struct runner_context *c, uint32_t timeout_ms)
{
    c->busy = true;
    c->overdue = false;
    c->limit_ms = timeout_ms;
    c->deadline_ms = uv_now(c->runner->options->loop) + timeout_ms;
    alarm_at(c->runner, c->deadline_ms);
}

// Opens the gate of the run that waits: it continues, or (`stop`) ends. Either has the job's whole
// timeout again.
static void runner_context_resume(struct runner_context *c, bool stop)
{
    c->waits = WAITS_NOT;
    make_busy(c, c->timeout_ms);
    c->runner->kind->next(c, stop);
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

// The context takes references of its own to buffer and bindings, because the job may be cancelled
// and freed while the device still uses them.
static void runner_context_start(struct runner_context *c, struct runner_job *job)
{
    const struct runner_options *o = c->runner->options;
    list_remove(&job->link);
    job->attempts++;
    if (job->attempts > 1)
        o->counters->jobs_retried++;
    c->job = job;
    c->buffer = buffer_ref(job->buffer);
    c->binding = binding_ref(job->binding);
    c->waits = WAITS_NOT;
    c->timeout_ms = job->timeout_ms ? job->timeout_ms : o->job_timeout_ms;
    make_busy(c, c->timeout_ms);
    c->runner->kind->run(c);
}

// A job that comes back after lost() keeps its count of attempts. A context that failed to open is
// opened again: the reason may have been temporary, such as memory.
void runner_submit(struct runner_job *job)
{
    struct runner_context *c = job->context;
    assert(!c->freed);
    if (!job->again)
        job->attempts = 0;
    job->again = job->stopped = false;
    job->submitted = true;
    job->run_us = job->estimate_ns = 0;
    list_append(&c->waiting, &job->link);
    if (c->state == CONTEXT_BROKEN)
        c->state = CONTEXT_CLOSED; // worth another try
    runner_context_advance(c);
}

// Once a part is out, the dump is not repeated on another worker: the client would get it twice. A
// cancelled job has nobody to take the part, and is stopped.
void runner_context_dumped(struct runner_context *c, const rknnd_DumpReply *part)
{
    struct runner_job *job = c->job;
    c->waits = WAITS_WITH_PART;
    if (!job) {
        runner_context_resume(c, true);
        return;
    }
    job->attempts = ATTEMPTS;
    make_busy(c, c->timeout_ms);
    job->part(job, part);
}

// Unlike a dump, a run with calls may be repeated: outputs are sent only at its end.
void runner_context_called(struct runner_context *c, uint32_t node)
{
    struct runner_job *job = c->job;
    c->waits = WAITS_WITH_CALL;
    c->called = node;
    if (!job) {
        runner_context_resume(c, true);
        return;
    }
    make_busy(c, c->timeout_ms);
    job->call(job, node);
}

// It computes nothing and waits for nobody but the scheduler: it has no deadline.
void runner_context_yielded(struct runner_context *c)
{
    struct runner_job *job = c->job;
    c->waits = WAITS_YIELDED;
    c->deadline_ms = RUNNER_NEVER;
    if (job)
        job->yielded(job);
    else
        runner_context_resume(c, true);
}

void runner_job_yield(struct runner_job *job)
{
    if (state_of(job) == JOB_RUNNING && job->slice_us)
        job->context->runner->kind->yield(job->context);
}

bool runner_job_waits(const struct runner_job *job)
{
    return state_of(job) == JOB_WAITING;
}

void runner_job_next(struct runner_job *job)
{
    if (state_of(job) == JOB_WAITING)
        runner_context_resume(job->context, false);
}

void runner_job_answered(struct runner_job *job)
{
    if (state_of(job) == JOB_WAITING)
        job->context->deadline_ms = RUNNER_NEVER;
}

// A queued job is only marked, and fails at its turn, so that done() never comes from inside.
void runner_job_stop(struct runner_job *job)
{
    enum job_state state = state_of(job);
    job->stopped = state != JOB_OUT;
    if (state == JOB_WAITING)
        runner_context_resume(job->context, true);
    else if (state == JOB_RUNNING)
        job->context->runner->kind->next(job->context, true);
}

void runner_job_fail(struct runner_job *job, const struct error *e)
{
    if (state_of(job) == JOB_WAITING)
        end_waiting(job->context, e);
}

// The run on the device cannot be withdrawn: it is told to stop, and its result goes to nobody.
void runner_job_cancel(struct runner_job *job)
{
    enum job_state state = state_of(job);
    runner_job_stop(job);
    if (state == JOB_QUEUED)
        list_remove(&job->link);
    else if (state != JOB_OUT)
        job->context->job = NULL;
    job->submitted = false;
}

// An owner who waits for opened() has no job yet, so at most one of the two is told.
void runner_context_give_up(struct runner_context *c, const struct error *e)
{
    struct runner_job *job = steal_ptr(c->job);
    __typeof__(c->opened) opened = steal_ptr(c->opened);
    if (opened)
        opened(c->owner, e);
    else if (job)
        runner_job_finish(job, e);
}

// The context stays busy while its owner is called: what the owner asks for waits until the call
// returns.
void runner_context_ran(struct runner_context *c, const struct error *e)
{
    struct runner_job *job = steal_ptr(c->job);
    if (job)
        runner_job_finish(job, e);
    buffer_unref(steal_ptr(c->buffer));
    binding_unref(steal_ptr(c->binding));
    c->busy = false;
    c->waits = WAITS_NOT;
    runner_context_advance(c);
}

// As above; a failure is kept for jobs that are submitted while the context is broken.
void runner_context_opened(struct runner_context *c, const struct error *e)
{
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
    make_busy(c, c->runner->options->load_timeout_ms);
    c->runner->kind->open(c);
}

// Starts one operation of an open context. False: there is nothing to do. Profiles come before
// jobs, since the next run would overwrite the layer times.
static bool use_context(struct runner_context *c)
{
    static const struct error stopped = {STATUS_FAIL, "the job was stopped before it began"};
    struct runner_job *job = list_first(&c->waiting, struct runner_job, link);
    if (!list_empty(&c->profiles)) {
        make_busy(c, c->runner->options->load_timeout_ms);
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
static void runner_context_advance(struct runner_context *c)
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
static void runner_advance_all(struct runner *runner)
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
static void tell_ready(struct runner *runner, bool ready)
{
    if (runner->loaded && runner->events->on_ready)
        runner->events->on_ready(runner->owner, ready);
}

void runner_is_ready(struct runner *runner)
{
    runner->ready = true;
    if (runner->loaded) {
        tell_ready(runner, true);
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
        tell_ready(runner, true);
    } else {
        runner->loaded = true;
        runner->events->on_loaded(runner->owner, e);
    }
    runner_advance_all(runner);
}

// Puts the job that a lost context ran back to the front of its queue; into `failed` if it has used
// up its attempts or nobody wants it any more.
static void runner_context_requeue(struct runner_context *c, struct list *failed)
{
    struct runner_job *job = steal_ptr(c->job);
    if (job && (job->stopped || job->attempts >= ATTEMPTS))
        list_append(failed, &job->link);
    else if (job)
        list_append(c->waiting.next, &job->link); // before the first
}

// Jobs whose owners prefer to have them back (lost()): the scheduler then gives their cores to
// others until the worker has been replaced.
static void take_lost(struct runner_context *c, struct list *lost)
{
    struct runner_job *job, *after;
    list_for_each_safe (job, after, &c->waiting, link) {
        if (!job->lost || job->stopped)
            continue;
        list_remove(&job->link);
        list_append(lost, &job->link);
    }
}

// `again` makes the next runner_submit() a second attempt of the same job.
static void give_back(struct list *lost)
{
    struct runner_job *job;
    while ((job = list_first(lost, struct runner_job, link))) {
        list_remove(&job->link);
        job->again = true;
        job->submitted = false;
        job->lost(job);
    }
}

// First all contexts are put in order, then owners of jobs are called, who may submit, cancel or
// free anything. Jobs past their deadline and jobs that were merely lost differ in their status.
void runner_has_lost_contexts(struct runner *runner, const struct error *why)
{
    struct list overdue, failed, lost;
    struct runner_context *c;
    struct runner_job *job;
    runner->ready = false;
    tell_ready(runner, false); // before anyone is called who could submit
    list_init(&overdue);
    list_init(&failed);
    list_init(&lost);
    list_for_each (c, &runner->contexts, link) {
        runner_context_requeue(c, c->overdue ? &overdue : &failed);
        take_lost(c, &lost);
        buffer_unref(steal_ptr(c->buffer));
        binding_unref(steal_ptr(c->binding));
        c->busy = c->overdue = false;
        c->waits = WAITS_NOT;
        c->state = CONTEXT_CLOSED;
    }
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "model %s: the job was past its deadline %d times: %s",
              runner->model.name, ATTEMPTS, why->text);
    while ((job = list_first(&overdue, struct runner_job, link))) {
        list_remove(&job->link);
        runner_job_finish(job, &e);
    }
    error_set(&e, STATUS_DEVICE_UNAVAILABLE, "model %s: tried %d times: %s", runner->model.name,
              ATTEMPTS, why->text);
    while ((job = list_first(&failed, struct runner_job, link))) {
        list_remove(&job->link);
        runner_job_finish(job, &e);
    }
    give_back(&lost);
    runner_advance_all(runner);
}
