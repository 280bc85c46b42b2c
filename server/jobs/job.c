// Jobs: received, scheduled, run, answered.
#include "server/jobs/job.h"

#include <stdlib.h>

#include "base/log.h"
#include "server/jobs/context.h"
#include "server/jobs/job_custom.h"
#include "server/jobs/job_dump.h"
#include "server/net/connection.h"
#include "server/net/session.h"
#include "server/server.h"

static uint64_t now_us(void)
{
    return uv_hrtime() / 1000;
}

static void uncharge(struct job *j)
{
    if (j->charged)
        j->charged->held_bytes -= j->held_bytes + j->back_bytes;
    j->charged = NULL;
}

static void detach_context(struct job *j)
{
    list_remove(&j->link);
    j->context = NULL;
}

static void trace(const struct job *j, enum trace_kind kind, uint64_t time_us, uint64_t value,
                  uint32_t cores)
{
    const struct trace_event event = {.time_us = time_us,
                                      .client = j->session->id,
                                      .id = j->number,
                                      .value = value,
                                      .cores = (uint16_t)cores,
                                      .kind = (uint8_t)kind};
    trace_add_event(&j->server->trace, &event, j->context ? j->context->model->file.name : NULL);
}

int job_new(struct context *x, unsigned n_inputs, uint64_t input_size, uint64_t output_size,
            struct job **ret, struct error *e)
{
    size_t size = sizeof(struct job) + n_inputs * sizeof(struct npu_input);
    struct job *j = calloc(1, size);
    if (!j)
        return error_no_memory(e, "a job", size);
    int r = buffer_get(host_buffers(x->model->host), input_size, output_size, &j->host.buffer, e);
    if (r < 0)
        goto no_buffer;
    j->held_bytes = j->host.buffer->input_size + j->host.buffer->output_size;
    r = user_take_request(x->session->user, j->held_bytes, e);
    if (r < 0)
        goto refused;
    j->session = session_ref(x->session);
    j->server = x->server;
    j->context = x;
    j->state = JOB_RECEIVING;
    j->number = ++x->server->next_job;
    j->host.binding = binding_ref(x->binding);
    j->output_size = output_size;
    j->n_inputs = n_inputs;
    list_init(&j->request.link);
    list_init(&j->sched.link);
    list_init(&j->timed);
    list_append(&x->jobs, &j->link);
    *ret = j;
    return 0;

refused:
    buffer_unref(j->host.buffer);
no_buffer:
    free(j);
    return r;
}

static void job_free(struct job *j)
{
    trace(j, TRACE_GONE, now_us(), 0, 0);
    uncharge(j);
    list_remove(&j->link);
    list_remove(&j->timed);
    dump_free(j->dump);
    custom_free(j->custom);
    buffer_unref(j->host.buffer);
    binding_unref(j->host.binding);
    user_give_request(j->session->user, j->held_bytes);
    session_unref(j->session);
    free(j);
}

void job_drop(struct job *j)
{
    job_free(j);
}

static void release(void *owner)
{
    job_free(owner);
}

// ---- ends ---------------------------------------------------------------------------------------

static void fail(struct job *j, const struct error *e)
{
    j->server->jobs_failed++;
    j->session->jobs_failed++;
    request_fail(&j->request, e);
    job_free(j);
}

static void count_done(struct job *j)
{
    j->server->jobs_done++;
    j->session->jobs_done++;
    j->state = JOB_DONE;
}

static bool goes_back(const struct job *j, uint32_t output)
{
    return output < 128 && j->outputs_back[output / 64] >> output % 64 & 1;
}

// The outputs in their order: those of the buffer, and those in memory if they are wanted.
static int gather_outputs(const struct job *j, const struct host_info *info, struct iovec *segments)
{
    const struct binding *b = j->host.binding;
    uint8_t *at = j->host.buffer->output;
    size_t left = (size_t)j->output_size;
    int n = 0;
    if (!b) {
        segments[0] = (struct iovec){at, left};
        return left > 0;
    }
    for (uint32_t i = info->n_inputs; i < info->n_inputs + info->n_outputs; i++) {
        const struct bound *place = binding_find(b, i);
        size_t all = host_info_row(info, j->host.row)[i].logical.size;
        size_t size = place ? 0 : all < left ? all : left;
        if (size > 0)
            segments[n++] = (struct iovec){at, size};
        if (place && goes_back(j, i - info->n_inputs))
            segments[n++] = (struct iovec){place->memory->buffer.map + place->offset, place->size};
        at += size;
        left -= size;
    }
    return n;
}

static void answer(struct job *j, const struct host_info *info)
{
    rknnd_InferReply m = {
        .run_us = j->host.run_us,
        .estimate_ns = j->host.estimate_ns,
        .queue_us = j->sched.started_us - j->sched.waiting_since_us,
        .attempts = j->host.attempts,
        .core_mask = j->host.core_mask,
    };
    struct iovec outputs[FRAME_MAX_SEGMENTS];
    int n = j->no_outputs ? 0 : gather_outputs(j, info, outputs);
    count_done(j);
    request_answer(&j->request, rknnd_InferReply_fields, &m, outputs, n, release, j);
}

static void answer_dump(struct job *j)
{
    rknnd_DumpReply m = {.n_tensors = j->host.n_tensors};
    count_done(j);
    request_answer(&j->request, rknnd_DumpReply_fields, &m, NULL, 0, release, j);
}

static void conclude(struct job *j, const struct error *e, const struct host_info *info)
{
    if (e && j->request.connection)
        log_warn("c%u j%llu: %s", j->request.connection->number, (unsigned long long)j->number,
                 e->text);
    if (e && !j->request.connection)
        job_free(j); // stopped, or as good as
    else if (e)
        fail(j, e);
    else if (j->dump)
        answer_dump(j);
    else
        answer(j, info);
}

static void on_done(struct host_job *host, const struct error *e)
{
    struct job *j = container_of(host, struct job, host);
    struct context *x = j->context;
    struct server *s = j->server;
    sched_end(&s->sched, &j->sched, now_us());
    j->session->queue_us += j->sched.started_us - j->sched.waiting_since_us;
    x->model->n_jobs++;
    x->model->run_us += j->host.run_us;
    trace(j, TRACE_ENDED, now_us(), j->host.run_us, j->host.core_mask);
    if (j->host.collect_perf) {
        x->profiled.job = j->number;
        x->profiled.started_us = j->sched.started_us;
        x->profiled.cores = j->sched.placed;
    }
    detach_context(j);
    list_remove(&j->timed);
    jobs_schedule(s); // first: a core waits for it
    conclude(j, e, host_info(x->model->host));
    x->n_running--;
    context_check_idle(x);
    server_check_drained(s);
}

static void leave_queue(struct job *j)
{
    sched_remove(&j->server->sched, &j->sched);
    job_timer_schedule(&j->server->job_timer);
}

// Nobody waits for it any more. It keeps its cores until the device has let go of it.
static void stop(struct job *j)
{
    uncharge(j);
    dump_abandon(j->dump);
    custom_abandon(j->custom);
    if (j->state == JOB_RUNNING)
        host_job_stop(&j->host);
}

// What waits is dropped.
static void on_abandoned(struct request *r)
{
    struct job *j = container_of(r, struct job, request);
    stop(j);
    if (j->state == JOB_RUNNING)
        return;
    if (j->state == JOB_WAITING)
        leave_queue(j);
    job_free(j);
}

void job_expire(struct job *j)
{
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "the run was not done within %u ms, its limit", j->limit_ms);
    if (j->state == JOB_WAITING) {
        leave_queue(j);
        fail(j, &e);
    } else if (j->state == JOB_RUNNING) {
        request_fail(&j->request, &e);
        j->server->jobs_failed++;
        j->session->jobs_failed++;
        stop(j);
    }
}

void job_context_closed(struct job *j, const struct error *why)
{
    if (j->state == JOB_RECEIVING) {
        detach_context(j); // refused when the inputs are complete
    } else if (j->state == JOB_WAITING) {
        leave_queue(j);
        fail(j, why);
    } else {
        request_fail(&j->request, why);
        stop(j);
    }
}

void job_kill(struct job *j)
{
    struct context *x = j->context;
    host_job_cancel(&j->host);
    sched_end(&j->server->sched, &j->sched, now_us());
    x->n_running--;
    job_free(j);
}

// To the front of its queue: others may have the cores until it can run again.
static void on_lost(struct host_job *host)
{
    struct job *j = container_of(host, struct job, host);
    trace(j, TRACE_ENDED, now_us(), 0, j->host.core_mask);
    sched_give_back(&j->server->sched, &j->sched, now_us());
    trace(j, TRACE_QUEUED, j->sched.waiting_since_us, 0, j->cores.mask);
    j->state = JOB_WAITING;
    j->context->n_running--;
}

// ---- the way in ---------------------------------------------------------------------------------

// Bytes that go back out of memories.
static uint64_t back_size(const struct job *j)
{
    const struct binding *b = j->host.binding;
    uint64_t size = 0;
    for (uint32_t i = 0; b && i < b->n_outputs; i++)
        size += goes_back(j, i) ? b->tensors[b->n_inputs + i].size : 0;
    return size;
}

void job_charge(struct job *j, struct connection *c, const struct frame_header *h)
{
    j->charged = c;
    j->back_bytes = back_size(j);
    c->held_bytes += j->held_bytes + j->back_bytes;
    request_begin(&j->request, c, h, on_abandoned);
    trace(j, TRACE_INPUTS, now_us(), h->payload_size, 0);
}

// Jobs that use the same internal memory wait for one another.
static struct sched_queue *queue_of(struct job *j)
{
    struct memory *internal = j->host.binding ? j->host.binding->internal : NULL;
    return internal ? &internal->queue : &j->context->queue;
}

void job_start(struct job *j)
{
    struct error e;
    if (!j->context) {
        error_set(&e, STATUS_CTX_INVALID, "the context was closed while the inputs came");
        fail(j, &e);
        return;
    }
    j->state = JOB_WAITING;
    if (j->limit_ms)
        job_timer_set(&j->server->job_timer, j);
    sched_add(&j->server->sched, &j->sched, queue_of(j), j->cores, now_us());
    trace(j, TRACE_QUEUED, j->sched.waiting_since_us, 0, j->cores.mask);
    jobs_schedule(j->server);
}

static void run(struct job *j)
{
    j->state = JOB_RUNNING;
    j->context->n_running++;
    j->host.context = j->context->host;
    j->host.inputs = j->inputs;
    j->host.core_mask = j->sched.placed;
    j->host.divide_batch = j->cores.or_fewer;
    j->host.done = on_done;
    j->host.lost = on_lost;
    trace(j, TRACE_STARTED, j->sched.started_us, 0, j->sched.placed);
    host_submit(&j->host);
}

// A job may end inside run(), and then calls this again.
void jobs_schedule(struct server *s)
{
    struct sched_job *next;
    if (s->scheduling)
        return;
    s->scheduling = true;
    while ((next = sched_next(&s->sched, now_us())))
        run(container_of(next, struct job, sched));
    s->scheduling = false;
}
