// Jobs: received, scheduled, run, answered.
//
//            job_new(), job_charge()
//                     v
//                 RECEIVING       the connection reads the inputs into the job's buffer
//                     | job_start(): they are complete
//                     v
//        +-------> WAITING        in a queue of the scheduler, for cores
//        |            | jobs_schedule(): its turn, and the cores are idle
//        | on_lost()  v
//        +--------- RUNNING       the runner has it; the cores are taken, unless it waits for its
//                     |           client for too long (job_hold.h)
//                     | on_done(): outputs are in the buffer, or an error is there
//                     v
//                   DONE          the reply points into the buffer; freed when it has been sent
//
// How a job ends early depends on who does not want it any more:
//
//                 | the client (gone,   | its own limit       | its context closes
//                 | cancelled)          |                     |
//   RECEIVING     | freed               | (not yet counted)   | refused when the inputs are there
//   WAITING       | freed               | fails               | fails
//   RUNNING       | stopped, no answer  | answered, stopped   | answered, stopped
//   DONE          | freed with the reply| -                   | -
//
// A job that is stopped keeps its cores, buffer and context until the runner lets go of it, because
// the device may still write to its memory. A job belongs to nobody but itself: it holds references
// to its session, its buffer and its bindings, and frees itself at one of the ends above. All of
// this is on the loop's thread.
#include "server/jobs/job.h"

#include <stdlib.h>

#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/jobs/job_custom.h"
#include "server/jobs/job_dump.h"
#include "server/metrics/metrics.h"
#include "server/net/connection.h"
#include "server/observe/trace.h"

static void jobs_schedule(struct jobs *all);

// Takes the job's bytes off the connection's account: the reply has been sent, or nobody reads it.
// The connection may read the next request in their place.
static void job_uncharge(struct job *j)
{
    if (j->charged)
        j->charged->held_bytes -= j->held_bytes + j->back_bytes;
    j->charged = NULL;
}

// Once: what becomes of it.
void job_count(struct job *j, enum metrics_outcome outcome)
{
    if (j->series)
        j->series->outcomes[outcome]++;
    j->series = NULL;
}

// From here on the context may close and be freed without the job.
static void detach_context(struct job *j)
{
    list_remove(&j->work.link);
    j->context = NULL;
}

// An event of the flight recorder about this job.
static void job_trace(const struct job *j, enum trace_kind kind, uint64_t time_us, uint64_t value,
                      uint32_t cores)
{
    const struct trace_event event = {.time_us = time_us,
                                      .client = j->session->id,
                                      .id = j->number,
                                      .value = value,
                                      .cores = (uint16_t)cores,
                                      .kind = (uint8_t)kind};
    trace_add_event(j->all->trace, &event, j->context ? j->context->model->file.name : NULL);
}

static void job_context_closed(struct context_work *w, const struct error *why);
static bool job_is_wanted(const struct job_hold *h);
static void job_suspend(struct job_hold *h);
static void job_resume(struct job_hold *h);

// Takes a buffer, which rounds the sizes up, and charges what it really has to the user. The
// connection is charged later, by job_charge(), when the request can no longer be refused.
int job_new(struct jobs *all, struct context *x, unsigned n_inputs, uint64_t input_size,
            uint64_t output_size, struct job **ret, struct error *e)
{
    size_t size = sizeof(struct job) + n_inputs * sizeof(struct npu_input);
    struct job *j = calloc(1, size);
    if (!j)
        return error_no_memory(e, "a job", size);
    int r =
        buffer_get(runner_buffers(x->model->runner), input_size, output_size, &j->run.buffer, e);
    if (r < 0)
        goto no_buffer;
    j->held_bytes = j->run.buffer->input_size + j->run.buffer->output_size;
    r = account_charge_sized(&x->session->account, ACCOUNT_REQUESTS, ACCOUNT_BYTES, j->held_bytes,
                             e);
    if (r < 0)
        goto refused;
    j->session = session_ref(x->session);
    j->all = all;
    j->context = x;
    j->state = JOB_RECEIVING;
    j->number = ++all->last_number;
    j->run.binding = binding_ref(x->binding);
    j->output_size = output_size;
    j->n_inputs = n_inputs;
    j->series = x->series;
    list_init(&j->request.link);
    list_init(&j->scheduling.link);
    list_init(&j->deadline.link);
    job_hold_init(&j->hold, &j->run, &all->holds, all->hold_limit_ms);
    j->hold.is_wanted = job_is_wanted;
    j->hold.suspend = job_suspend;
    j->hold.resume = job_resume;
    j->work.closed = job_context_closed;
    list_append(&x->jobs, &j->work.link);
    *ret = j;
    return 0;

refused:
    buffer_unref(j->run.buffer);
no_buffer:
    free(j);
    return r;
}

// The one place where a job's references and counts are given back.
static void job_free(struct job *j)
{
    job_trace(j, TRACE_GONE, now_us(), 0, 0);
    if (j->state != JOB_RECEIVING)
        job_count(j, METRICS_STOPPED);
    job_uncharge(j);
    list_remove(&j->work.link);
    list_remove(&j->deadline.link);
    job_hold_reset(&j->hold);
    job_dump_free(j->dump);
    job_custom_free(j->custom);
    buffer_unref(j->run.buffer);
    binding_unref(j->run.binding);
    account_refund_sized(&j->session->account, ACCOUNT_REQUESTS, ACCOUNT_BYTES, j->held_bytes);
    session_unref(j->session);
    free(j);
}

void job_drop(struct job *j)
{
    job_free(j);
}

// ---- ends ---------------------------------------------------------------------------------------

static void job_count_suspended(struct job *j, int change)
{
    j->all->n_suspended += (unsigned)change;
    user_person(j->session->user)->n_suspended += (unsigned)change;
}

static bool is_suspended(const struct job *j)
{
    return j->hold.state == HOLD_SUSPENDED || j->hold.state == HOLD_RESUMES;
}

// The runner does not have it any more.
static void job_leave_scheduler(struct job *j)
{
    struct scheduler *s = &j->all->scheduler;
    if (is_suspended(j))
        job_count_suspended(j, -1);
    if (j->hold.state == HOLD_SUSPENDED) {
        scheduler_abandon(s, &j->scheduling);
    } else if (j->hold.state == HOLD_RESUMES) {
        scheduler_remove(s, &j->scheduling);
    } else {
        j->queued_us += j->scheduling.started_us - j->scheduling.waiting_since_us;
        scheduler_end(s, &j->scheduling, now_us());
    }
    job_hold_reset(&j->hold);
}

// From the runner, exactly once for each submitted job. The next job is started before this one is
// answered, because a core is idle meanwhile. x->n_running keeps the context until the end of the
// function.
static void on_done(struct runner_job *run, const struct error *e)
{
    struct job *j = container_of(run, struct job, run);
    struct context *x = j->context;
    struct jobs *all = j->all;
    uint64_t started_us = j->scheduling.started_us;
    job_leave_scheduler(j);
    job_check_time(j);
    j->session->queue_us += j->queued_us;
    job_observe(j);
    if (!e && !j->dump && !j->custom)
        job_learn(j);
    x->model->n_jobs++;
    x->use.n_jobs++;
    x->model->run_us += j->run.run_us;
    x->use.run_us += j->run.run_us;
    job_trace(j, TRACE_ENDED, now_us(), j->run.run_us, j->run.core_mask);
    if (j->run.collect_perf) {
        x->profiled.job = j->number;
        x->profiled.started_us = started_us;
        x->profiled.cores = j->run.core_mask;
    }
    detach_context(j);
    list_remove(&j->deadline.link);
    jobs_schedule(all); // first: a core waits for it
    job_conclude(j, e, runner_info(x->model->runner));
    x->n_running--;
    context_check_idle(x);
    all->on_ended(all);
}

// Its leaving may let another job run; that is tried from the loop, as the caller may be in the
// middle of a list.
static void job_leave_queue(struct job *j)
{
    scheduler_remove(&j->all->scheduler, &j->scheduling);
    job_timer_wake(&j->all->timer);
}

// Nobody waits for the job any more. Payload that is coming for it is dropped; a run keeps its
// cores until the device lets go of its memory.
static void job_stop(struct job *j)
{
    job_uncharge(j);
    job_dump_abandon(j->dump);
    job_custom_abandon(j->custom);
    if (j->state == JOB_RUNNING)
        runner_job_stop(&j->run);
}

// From its request: the client has gone or has cancelled.
static void on_abandoned(struct request *r)
{
    struct job *j = container_of(r, struct job, request);
    job_stop(j);
    if (j->state == JOB_RUNNING)
        return;
    if (j->state == JOB_WAITING)
        job_leave_queue(j);
    job_free(j);
}

// The client's own limit for this run has passed. A run is answered at once, though the device
// still works on it.
static void job_expire(struct job_deadline *d)
{
    struct job *j = container_of(d, struct job, deadline);
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "the run was not done within %u ms, its limit", j->limit_ms);
    if (j->state == JOB_WAITING) {
        job_leave_queue(j);
        job_fail(j, &e);
    } else if (j->state == JOB_RUNNING) {
        request_fail(&j->request, &e);
        j->all->n_failed++;
        j->session->jobs_failed++;
        job_count(j, METRICS_FAILED);
        job_stop(j);
    }
}

static void job_context_closed(struct context_work *w, const struct error *why)
{
    struct job *j = container_of(w, struct job, work);
    if (j->state == JOB_RECEIVING) {
        detach_context(j); // refused when the inputs are complete
    } else if (j->state == JOB_WAITING) {
        job_leave_queue(j);
        job_fail(j, why);
    } else {
        request_fail(&j->request, why);
        job_stop(j);
    }
}

// Shutdown: the runner forgets the job, and nothing is answered.
static void job_kill(struct job *j)
{
    struct context *x = j->context;
    runner_job_cancel(&j->run);
    job_leave_scheduler(j);
    x->n_running--;
    job_free(j);
}

void jobs_kill(struct context *x)
{
    struct context_work *w, *after;
    list_for_each_safe (w, after, &x->jobs, link)
        job_kill(container_of(w, struct job, work));
}

// Its worker has died: back to the front of its queue, so that other models may have the cores
// until a new worker is ready.
static void on_lost(struct runner_job *run)
{
    struct job *j = container_of(run, struct job, run);
    job_trace(j, TRACE_ENDED, now_us(), 0, j->run.core_mask);
    job_leave_scheduler(j);
    scheduler_add_first(&j->all->scheduler, &j->scheduling, j->scheduling.queue, j->cores,
                        now_us());
    job_trace(j, TRACE_QUEUED, j->scheduling.waiting_since_us, 0, j->cores.mask);
    j->state = JOB_WAITING;
    j->context->n_running--;
}

// ---- waiting for the client --------------------------------------------------------------------

// Its cores may be others than those that are waited for: it gets them again.
static bool job_is_wanted(const struct job_hold *h)
{
    return container_of(h, struct job, hold)->all->scheduler.n_waiting > 0;
}

// From its hold: the client has had time enough. What waits for cores is started by the timer,
// which is at work here.
static void job_suspend(struct job_hold *h)
{
    struct job *j = container_of(h, struct job, hold);
    struct error e;
    if (j->all->n_suspended >= JOBS_SUSPENDED_MAX) {
        if (h->left_ms > 0 && user_person(j->session->user)->n_suspended < JOBS_SUSPENDED_MANY) {
            job_hold_begin(h);
            return;
        }
        h->state = HOLD_CORES; // the runner ends it
        error_set(&e, STATUS_TIMEOUT,
                  "the program has not answered for %u ms in all (hold-timeout-ms), and %u other "
                  "runs wait for theirs",
                  j->all->hold_limit_ms - h->left_ms, j->all->n_suspended);
        runner_job_fail(&j->run, &e);
        return;
    }
    job_count_suspended(j, 1);
    j->queued_us += j->scheduling.started_us - j->scheduling.waiting_since_us;
    job_trace(j, TRACE_ENDED, now_us(), 0, j->run.core_mask);
    scheduler_suspend(&j->all->scheduler, &j->scheduling, now_us());
}

// From the runner: it waits between two slices, and gives its cores to whoever is more urgent. It
// is in the same state as one that has its client's answer, and goes on in the same way.
static void on_yielded(struct runner_job *run)
{
    struct job *j = container_of(run, struct job, run);
    uint64_t now = now_us();
    job_count_suspended(j, 1);
    j->queued_us += j->scheduling.started_us - j->scheduling.waiting_since_us;
    job_trace(j, TRACE_ENDED, now, 0, j->run.core_mask);
    j->hold.state = HOLD_RESUMES;
    scheduler_yield(&j->all->scheduler, &j->scheduling, now);
    job_trace(j, TRACE_QUEUED, now, 0, j->run.core_mask);
    jobs_schedule(j->all);
}

// From its hold: the client has answered.
static void job_resume(struct job_hold *h)
{
    struct job *j = container_of(h, struct job, hold);
    scheduler_resume(&j->all->scheduler, &j->scheduling, now_us());
    job_trace(j, TRACE_QUEUED, j->scheduling.waiting_since_us, 0, j->run.core_mask);
    job_timer_wake(&j->all->timer);
}

// ---- the way in ---------------------------------------------------------------------------------

void job_charge(struct job *j, struct connection *c, const struct frame_header *h)
{
    j->charged = c;
    j->back_bytes = job_back_size(j);
    c->held_bytes += j->held_bytes + j->back_bytes;
    j->since_us = now_us();
    request_begin(&j->request, &c->requests, h, on_abandoned);
    job_trace(j, TRACE_INPUTS, now_us(), h->payload_size, 0);
}

// Contexts that share their internal memory must not run at once, so their jobs share the memory's
// queue.
struct scheduler_queue *job_queue(struct job *j)
{
    struct memory *internal = j->run.binding ? j->run.binding->internal : NULL;
    return internal ? &internal->queue : &j->context->queue;
}

void job_start(struct job *j)
{
    struct error e;
    if (!j->context) {
        error_set(&e, STATUS_CTX_INVALID, "the context was closed while the inputs came");
        job_fail(j, &e);
        return;
    }
    if (j->admit && j->limit_ms && job_admit(j, &e) < 0) {
        job_fail(j, &e);
        return;
    }
    j->state = JOB_WAITING;
    metrics_observe(&j->all->metrics->transfer[METRICS_IN], now_us() - j->since_us);
    if (j->limit_ms)
        job_timer_set(&j->all->timer, &j->deadline, j->limit_ms);
    scheduler_add(&j->all->scheduler, &j->scheduling, job_queue(j), j->cores, now_us());
    job_trace(j, TRACE_QUEUED, j->scheduling.waiting_since_us, 0, j->cores.mask);
    jobs_schedule(j->all);
}

// The scheduler has placed it, for the first time or again: to the runner. May end from inside,
// when the runner has failed.
static void job_run(struct job *j)
{
    if (j->hold.state == HOLD_RESUMES) {
        job_count_suspended(j, -1);
        job_trace(j, TRACE_STARTED, j->scheduling.started_us, 0, j->scheduling.placed);
        job_hold_continue(&j->hold);
        return;
    }
    j->state = JOB_RUNNING;
    j->begun_us = j->begun_us ? j->begun_us : j->scheduling.started_us;
    j->context->n_running++;
    j->run.context = j->context->runner;
    j->run.inputs = j->inputs;
    j->run.core_mask = j->scheduling.placed;
    j->run.divide_batch = j->cores.or_fewer;
    j->run.done = on_done;
    j->run.lost = on_lost;
    j->run.yielded = on_yielded;
    j->run.slice_us = j->all->slices ? j->all->slice_us : 0;
    job_trace(j, TRACE_STARTED, j->scheduling.started_us, 0, j->scheduling.placed);
    runner_submit(&j->run);
}

// Starts whatever can start now. Not recursive: a job that ends inside job_run() calls this again,
// and the outer loop continues.
static void jobs_schedule(struct jobs *all)
{
    struct scheduler_job *next;
    if (all->scheduling)
        return;
    all->scheduling = true;
    while ((next = scheduler_next(&all->scheduler, now_us())))
        job_run(container_of(next, struct job, scheduling));
    while (all->slices && all->slice_us && (next = scheduler_victim(&all->scheduler, now_us())))
        runner_job_yield(&container_of(next, struct job, scheduling)->run);
    if (all->scheduler.n_waiting > 0)
        job_timer_hurry(&all->holds, HOLD_WANTED_MS);
    all->scheduling = false;
}

static void jobs_on_timer(struct job_timer *t)
{
    jobs_schedule(container_of(t, struct jobs, timer));
}

static void jobs_on_hold(struct job_timer *t)
{
    jobs_schedule(container_of(t, struct jobs, holds));
}

void jobs_init(struct jobs *all, uv_loop_t *loop, struct trace *trace, uint32_t hold_limit_ms,
               void (*on_ended)(struct jobs *all))
{
    *all = (struct jobs){.trace = trace, .hold_limit_ms = hold_limit_ms, .on_ended = on_ended};
    job_timer_init(&all->timer, loop, job_expire, jobs_on_timer);
    job_timer_init(&all->holds, loop, job_hold_expire, jobs_on_hold);
}

// ---- by their request --------------------------------------------------------------------------

struct job_dump *job_find_dump(struct request *r)
{
    return r && r->type == MESSAGE_DUMP ? container_of(r, struct job, request)->dump : NULL;
}

struct job_custom *job_find_custom(struct request *r)
{
    bool runs = r && (r->type == MESSAGE_INFER || r->type == MESSAGE_DUMP);
    struct job *j = runs ? container_of(r, struct job, request) : NULL;
    // It waits again when its worker has died in the middle of a call.
    return j && (j->state == JOB_RUNNING || j->state == JOB_WAITING) ? j->custom : NULL;
}
