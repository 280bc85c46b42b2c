// What becomes of a job: runs, parts, calls and answers of the context whose turn it is, and its
// end, also when the worker is lost.
#include <assert.h>

#include "base/cleanup.h"
#include "server/runner/runner.h"
#include "server/runner/runner_kind.h"

#define LOSSES 8 // of openings and questions, in a row; one that took too long counts for half

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

void runner_job_finish(struct runner_job *job, const struct error *e)
{
    job->submitted = false;
    job->done(job, e);
}

// Opens the gate of the run that waits: it continues, or (`stop`) ends. Either has the job's whole
// timeout again.
static void runner_context_resume(struct runner_context *c, bool stop)
{
    c->waits = WAITS_NOT;
    runner_context_make_busy(c, c->timeout_ms);
    c->runner->kind->next(c, stop);
}

void runner_context_end_waiting(struct runner_context *c, const struct error *e)
{
    struct runner_job *job = steal_ptr(c->job);
    runner_context_resume(c, true);
    if (job)
        runner_job_finish(job, e);
}

// The context takes references of its own to buffer and bindings, because the job may be cancelled
// and freed while the device still uses them.
void runner_context_start(struct runner_context *c, struct runner_job *job)
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
    runner_context_make_busy(c, c->timeout_ms);
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
    job->attempts = RUNNER_ATTEMPTS;
    runner_context_make_busy(c, c->timeout_ms);
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
    runner_context_make_busy(c, c->timeout_ms);
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
        runner_context_end_waiting(job->context, e);
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

// ---- when the worker is lost --------------------------------------------------------------------

// Puts the job that a lost context ran back to the front of its queue; into `failed` if it has used
// up its attempts or nobody wants it any more.
static void runner_context_requeue(struct runner_context *c, struct list *failed)
{
    struct runner_job *job = steal_ptr(c->job);
    if (job && (job->stopped || job->attempts >= RUNNER_ATTEMPTS))
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

// A job has its attempts. To open a context, or to ask for layer times, is tried again as well, but
// not for ever: a worker that hangs in it lives for so long that its deaths are not in a row.
static void runner_context_lose(struct runner_context *c, const struct error *why)
{
    bool asked = c->busy && !c->buffer;
    c->losses += !asked ? 0 : c->overdue ? LOSSES / RUNNER_ATTEMPTS : 1;
    c->state = CONTEXT_CLOSED;
    if (c->losses < LOSSES)
        return;
    c->losses = 0;
    c->state = CONTEXT_BROKEN;
    error_set(&c->failure, why->code, "model %s: opening or asking a context was tried in vain: %s",
              c->runner->model.name, why->text);
}

// First all contexts are put in order, then owners of jobs are called, who may submit, cancel or
// free anything. Jobs past their deadline and jobs that were merely lost differ in their status.
void runner_has_lost_contexts(struct runner *runner, const struct error *why)
{
    struct list overdue, failed, lost;
    struct runner_context *c;
    struct runner_job *job;
    runner->ready = false;
    runner_tell_ready(runner, false); // before anyone is called who could submit
    list_init(&overdue);
    list_init(&failed);
    list_init(&lost);
    list_for_each (c, &runner->contexts, link) {
        runner_context_requeue(c, c->overdue ? &overdue : &failed);
        take_lost(c, &lost);
        runner_context_lose(c, why);
        buffer_unref(steal_ptr(c->buffer));
        binding_unref(steal_ptr(c->binding));
        c->busy = c->overdue = false;
        c->waits = WAITS_NOT;
    }
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "model %s: the job was past its deadline %d times: %s",
              runner->model.name, RUNNER_ATTEMPTS, why->text);
    while ((job = list_first(&overdue, struct runner_job, link))) {
        list_remove(&job->link);
        runner_job_finish(job, &e);
    }
    error_set(&e, STATUS_DEVICE_UNAVAILABLE, "model %s: tried %d times: %s", runner->model.name,
              RUNNER_ATTEMPTS, why->text);
    while ((job = list_first(&failed, struct runner_job, link))) {
        list_remove(&job->link);
        runner_job_finish(job, &e);
    }
    give_back(&lost);
    runner_advance_all(runner);
}
