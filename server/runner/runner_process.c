// Runners in worker processes.
//
//                  runner_new()
//                      v      both answers            worker dies
//     +----------> STARTING -------------> READY -------------------+
//     |                | worker dies                                |
//     | pause over     v                                            |
//     +------------ RESTING <---------------------------------------+
//                      | too many deaths without a finished job; or the model is refused
//                      v
//                   FAILED
//
// START and LOAD are sent at once, as requests 1 and 2; contexts are opened when both are answered.
// Nothing that the worker says is trusted: an answer that cannot be correct kills it. All of it is
// on the loop's thread.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "protocol/tensor_message.h"
#include "server/runner/runner_kind.h"
#include "server/runner/worker_binding.h"
#include "server/runner/worker_process.h"

// Deaths in a row: the first DEATHS_AT_ONCE are followed by a new worker at once, then pauses
// double from FIRST_PAUSE_MS on, and after DEATHS_MAX no worker is started any more. A model that
// was never loaded gets DEATHS_BEFORE_USE tries, as its client waits for the answer; more if others
// had taken the threads that it needs.
#define DEATHS_AT_ONCE    3
#define DEATHS_MAX        8
#define DEATHS_BEFORE_USE 2
#define LIVED_LONG_MS     10000 // of being READY: a death after that starts a new count
#define FIRST_PAUSE_MS    100

#define MAX_LAYERS 65536        // that a client takes
#define MAX_BYTES  (1ull << 48) // that a process can have: sums of them do not overflow

enum state { STARTING, READY, RESTING, FAILED };

struct process_runner {
    struct runner base;
    enum state state;
    struct worker_process *worker; // while STARTING or READY
    uint32_t generation;           // counts workers
    uint32_t last_context;         // number given to a context
    uint32_t last_request;         // to this worker
    bool started;                  // START is answered
    bool load_overdue;
    uint64_t ready_ms;
    unsigned deaths; // in a row: since a job was finished
    struct worker_memories memories;
    struct list calls; // contexts that wait for an answer, in the order of their requests
};

// A context has at most one request under way; `call` links it into process_runner.calls.
struct process_context {
    struct runner_context base;
    uint32_t id;
    struct list call;
    uint32_t request;
    uint16_t request_type;
    struct binding *told; // the worker knows these bindings
};

static struct process_runner *runner_of(struct runner *runner)
{
    return container_of(runner, struct process_runner, base);
}

static struct process_context *context_of(struct runner_context *c)
{
    return container_of(c, struct process_context, base);
}

// ---- requests ----------------------------------------------------------------------------------

static uint32_t next_request(struct process_runner *runner)
{
    return ++runner->last_request;
}

// Sends a request with up to two file descriptors. They are duplicated: the frame owns and closes
// its own. A missing frame (out of memory) makes worker_process_send() kill the worker.
static int send_request(struct process_runner *runner, uint16_t type, uint32_t id,
                        const void *message, const int *fds, int n_fds, struct error *e)
{
    const struct message_row *row = message_row(type);
    struct frame_out *f = message_frame(type, 0, id, row->request, message, NULL, 0, NULL, NULL);
    for (int i = 0; f && i < n_fds; i++) {
        int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "cannot pass memory to a worker");
            frame_out_free(f);
            return STATUS_DEVICE_UNAVAILABLE;
        }
        f->fds[f->n_fds++] = fd;
    }
    worker_process_send(runner->worker, f);
    return 0;
}

// Sends a context's request and notes it, so that its answer finds the context.
static void process_call(struct process_context *c, uint16_t type, const void *message)
{
    struct process_runner *runner = runner_of(c->base.runner);
    c->request = next_request(runner);
    c->request_type = type;
    list_append(&runner->calls, &c->call);
    send_request(runner, type, c->request, message, NULL, 0, NULL);
}

// The context whose request a frame answers; NULL if there is none, or of another type.
static struct process_context *find_call(struct process_runner *runner,
                                         const struct frame_header *f)
{
    struct process_context *c;
    list_for_each (c, &runner->calls, call)
        if (c->request == f->id)
            return c->request_type == f->type ? c : NULL;
    return NULL;
}

// ---- contexts and jobs -------------------------------------------------------------------------

// Opens the context in the present worker. Bindings that an earlier worker knew are forgotten. The
// context keeps its number, which is unique in the runner.
static void process_open(struct runner_context *base)
{
    struct process_context *c = context_of(base);
    binding_unref(steal_ptr(c->told));
    if (c->id == 0) {
        list_init(&c->call);
        c->id = ++runner_of(base->runner)->last_context;
    }
    process_call(c, MESSAGE_WORKER_OPEN, &(rknnd_WorkerContext){.context = c->id});
}

// CLOSE has no answer. A context that is not open in the worker has nothing to close there.
static void process_close(struct runner_context *base)
{
    struct process_context *c = context_of(base);
    struct process_runner *runner = runner_of(base->runner);
    if (base->state == CONTEXT_OPEN && runner->worker)
        send_request(runner, MESSAGE_WORKER_CLOSE, next_request(runner),
                     &(rknnd_WorkerContext){.context = c->id}, NULL, 0, NULL);
    runner_context_done(base);
    binding_unref(c->told);
    free(c);
}

// A worker maps a buffer once; afterwards its number is enough. `generation` tells whether it was
// this worker or a predecessor.
static int pass_buffer(struct process_runner *runner, struct buffer *b, struct error *e)
{
    if (b->worker == runner->generation)
        return 0;
    rknnd_WorkerBuffer m = {
        .buffer = b->id, .input_size = b->input_size, .output_size = b->output_size};
    int fds[] = {b->input_fd, b->output_fd};
    int r = send_request(runner, MESSAGE_WORKER_BUFFER, next_request(runner), &m, fds, 2, e);
    if (r == 0)
        b->worker = runner->generation;
    return r;
}

// Tells the worker only what differs from the bindings of the context's last run.
static int tell_bindings(struct process_context *c, struct binding *b, struct error *e)
{
    struct process_runner *runner = runner_of(c->base.runner);
    int r = worker_memories_bind(&runner->memories, c->id, c->told, b, e);
    if (r < 0 || c->told == b)
        return r;
    binding_unref(c->told);
    c->told = binding_ref(b);
    return 0;
}

// From the pool, before it unmaps an idle buffer: the worker unmaps it as well.
static void forget_buffer(struct buffer *b, void *owner)
{
    struct process_runner *runner = owner;
    if (runner->worker && b->worker == runner->generation)
        send_request(runner, MESSAGE_WORKER_BUFFER_FREE, next_request(runner),
                     &(rknnd_WorkerBuffer){.buffer = b->id}, NULL, 0, NULL);
}

// Addresses in the job's buffer become offsets, as the worker maps it elsewhere. Bound inputs were
// described by their binding already.
static void put_inputs(const struct runner_job *job, uint32_t n, rknnd_WorkerRun *m)
{
    m->inputs_count = (pb_size_t)n;
    for (uint32_t i = 0; i < n; i++) {
        const struct npu_input *in = &job->inputs[i];
        m->inputs[i] = (rknnd_WorkerSlot){0};
        if (binding_find(job->binding, i))
            continue;
        m->inputs[i] = (rknnd_WorkerSlot){
            .offset = (uint64_t)((const uint8_t *)in->data - job->buffer->input),
            .has_form = true,
            .form = {.size = in->size,
                     .type = in->type,
                     .layout = in->layout,
                     .pass_through = in->pass_through,
                     .converted = in->converted},
        };
    }
}

// Outputs that are not bound are packed one after the other from the start of the output half.
static void put_outputs(const struct model_info *info, const struct runner_job *job,
                        rknnd_WorkerRun *m)
{
    const struct tensor_io *outputs = model_info_shape_set(info, job->shape_set) + info->n_inputs;
    uint64_t offset = 0;
    m->output_offsets_count = (pb_size_t)info->n_outputs;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        bool bound = binding_find(job->binding, info->n_inputs + i);
        m->output_offsets[i] = bound ? 0 : offset;
        offset += bound ? 0 : outputs[i].logical.size;
    }
}

static void put_run(const struct process_context *c, const struct runner_job *job,
                    rknnd_WorkerRun *m)
{
    m->context = c->id;
    m->buffer = job->buffer->id;
    m->core_mask = job->core_mask;
    m->divide_batch = job->divide_batch;
    m->shape_set = job->shape_set;
    m->collect_perf = job->collect_perf;
    put_inputs(job, c->base.runner->info.n_inputs, m);
    custom_set_to_message(&job->custom, m->custom_nodes);
    m->custom_inputs = job->custom_inputs;
    m->custom_outputs = job->custom_outputs;
    m->slice_us = job->slice_us;
    m->samples = job->samples;
}

// As process_run(), without outputs; the output half of the buffer is the window.
static void process_dump(struct process_context *c, const struct runner_job *job)
{
    rknnd_WorkerDump m = {.has_run = true, .window = job->window, .replace = job->replace};
    message_set_text(m.only, job->only);
    put_run(c, job, &m.run);
    process_call(c, MESSAGE_WORKER_DUMP, &m);
}

// Messages reach the worker in order, so buffer and bindings are known when the run is.
static void process_run(struct runner_context *base)
{
    struct process_context *c = context_of(base);
    const struct runner_job *job = base->job;
    struct error e;
    if (pass_buffer(runner_of(base->runner), job->buffer, &e) < 0 ||
        tell_bindings(c, job->binding, &e) < 0) {
        runner_context_ran(base, &e);
        return;
    }
    if (job->part) {
        process_dump(c, job);
        return;
    }
    rknnd_WorkerRun m; // 7 KB, of which only what is counted is ever looked at
    put_run(c, job, &m);
    put_outputs(&base->runner->info, job, &m);
    process_call(c, MESSAGE_WORKER_RUN, &m);
}

// Has a request number like any other, but no answer.
static void process_next(struct runner_context *base, bool stop)
{
    struct process_runner *runner = runner_of(base->runner);
    rknnd_WorkerNext m = {.context = context_of(base)->id, .stop = stop};
    if (runner->worker)
        send_request(runner, MESSAGE_WORKER_NEXT, next_request(runner), &m, NULL, 0, NULL);
}

static void process_yield(struct runner_context *base)
{
    struct process_runner *runner = runner_of(base->runner);
    rknnd_WorkerNext m = {.context = context_of(base)->id, .yield = true};
    if (runner->worker)
        send_request(runner, MESSAGE_WORKER_NEXT, next_request(runner), &m, NULL, 0, NULL);
}

static void process_profile(struct runner_context *base)
{
    struct process_context *c = context_of(base);
    process_call(c, MESSAGE_WORKER_PROFILE, &(rknnd_WorkerContext){.context = c->id});
}

// ---- answers -----------------------------------------------------------------------------------

// Checks what a worker says about its model. n_shape_sets 0 means fixed shapes: one shape set.
static int take_info(struct process_runner *runner, const rknnd_ContextInfo *m,
                     struct bytes payload, struct error *e)
{
    struct model_info *info = &runner->base.info;
    if (m->n_inputs > NPU_MAX_ENDS || m->n_outputs > NPU_MAX_ENDS)
        return error_set(e, STATUS_FAIL, "a model with %u inputs and %u outputs", m->n_inputs,
                         m->n_outputs);
    if (m->core_limit == 0 || m->core_limit > info->device.n_cores || m->batch == 0)
        return error_set(e, STATUS_FAIL, "a model for %u cores and a batch of %u", m->core_limit,
                         m->batch);
    if (m->weight_size > MAX_BYTES || m->internal_size > MAX_BYTES || m->memory_size > MAX_BYTES ||
        m->context_size > MAX_BYTES)
        return error_set(e, STATUS_FAIL, "a model of more bytes than there can be");
    uint32_t n_shape_sets = m->n_shape_sets ? m->n_shape_sets : 1;
    if (n_shape_sets > NPU_MAX_SHAPE_SETS)
        return error_set(e, STATUS_FAIL, "a model with %u shape sets", n_shape_sets);
    int r = model_info_take_custom(info, &payload, m->n_custom, e);
    if (r == 0)
        r = tensor_list_decode(payload, (size_t)n_shape_sets * (m->n_inputs + m->n_outputs),
                               &info->tensors, e);
    if (r < 0)
        return r;
    model_info_take_message(info, m);
    return 0;
}

static void free_worker(struct process_runner *runner)
{
    worker_memories_reset(&runner->memories, NULL);
    worker_process_free(steal_ptr(runner->worker));
}

// The worker answered START or LOAD with an error. Another worker would say the same, so none is
// started.
static void process_refuse(struct process_runner *runner, const struct error *e)
{
    runner->state = FAILED;
    runner_set_deadline(&runner->base, RUNNER_NEVER);
    free_worker(runner);
    runner_has_lost_contexts(&runner->base, e);
    runner_has_failed(&runner->base, e);
}

// A later worker's device is not looked at: info may be in use already, and the device is the same.
static int on_started(struct process_runner *runner, const rknnd_Device *m, struct error *e)
{
    runner->started = true;
    runner->base.worker = worker_process_pid(runner->worker);
    return runner->base.loaded ? 0 : worker_process_take_device(m, &runner->base.info.device, e);
}

// Device and file are the same for every worker, so the first answer is kept.
static int on_model_loaded(struct process_runner *runner, const rknnd_ContextInfo *m,
                           struct bytes payload, struct error *e)
{
    if (!runner->base.info.tensors) {
        int r = take_info(runner, m, payload, e);
        if (r < 0)
            return r;
    }
    runner->state = READY;
    runner->ready_ms = uv_now(runner->base.options->loop);
    runner_set_deadline(&runner->base, RUNNER_NEVER);
    runner_is_ready(&runner->base);
    return 0;
}

// Decodes all layers only to see that they are well formed: the payload goes to clients as it is.
// Layers may be of a byte each, and the loop waits meanwhile.
static int check_layers(const rknnd_ProfileReply *m, struct bytes layers, struct error *e)
{
    if (m->n_layers > MAX_LAYERS)
        return error_set(e, STATUS_FAIL, "a model of %u layers", m->n_layers);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        rknnd_Layer layer;
        int r = message_delimited_take(rknnd_Layer_fields, &layers, &layer, e);
        if (r < 0)
            return r;
    }
    if (layers.size > 0)
        return error_set(e, STATUS_FAIL, "%zu bytes too many behind %u layers", layers.size,
                         m->n_layers);
    return 0;
}

// A part of a dump. Its size must lie inside the window, from which it will be sent to a client.
static int on_part(struct process_context *c, const rknnd_DumpReply *part, struct error *e)
{
    const struct runner_context *base = &c->base;
    if (base->waits || !base->buffer || part->size > base->buffer->output_size ||
        (base->job && part->size > base->job->window) ||
        (base->job && part->wanted && !base->job->replace))
        return error_set(e, STATUS_FAIL, "a part of %llu bytes of a dump",
                         (unsigned long long)part->size);
    runner_context_dumped(&c->base, part);
    return 0;
}

// A node that the client computes has its inputs ready. Only nodes that were asked for may come.
static int on_custom(struct process_context *c, const rknnd_CustomCall *m, struct error *e)
{
    const struct runner_context *base = &c->base;
    if (base->waits || (base->job && !custom_set_has(&base->job->custom, m->node)))
        return error_set(e, STATUS_FAIL, "a call for node %u", m->node);
    runner_context_called(&c->base, m->node);
    return 0;
}

static int on_yielded(struct process_context *c, struct error *e)
{
    const struct runner_context *base = &c->base;
    if (base->waits || (base->job && !base->job->slice_us))
        return error_set(e, STATUS_FAIL, "a run that has yielded and was not asked to");
    runner_context_yielded(&c->base);
    return 0;
}

// A partial answer (FRAME_MORE): a part of a dump, the call of a custom operator, or the end of a
// slice.
static int on_more(struct process_context *c, const union message_any *m, struct error *e)
{
    bool run = c->request_type == MESSAGE_WORKER_RUN;
    if (!run && !m->WORKER_DUMP_reply.has_call)
        return on_part(c, &m->WORKER_DUMP_reply, e);
    if (run && m->WORKER_RUN_reply.yielded)
        return on_yielded(c, e);
    return on_custom(c, run ? &m->WORKER_RUN_reply.call : &m->WORKER_DUMP_reply.call, e);
}

// The final answer of a context's request. The call leaves its list first, because the callback may
// start the next one. A finished run ends the series of deaths.
static int on_call_answered(struct process_runner *runner, struct process_context *c,
                            const struct error *failure, const union message_any *m,
                            struct bytes payload, struct error *e)
{
    if (c->request_type == MESSAGE_WORKER_PROFILE && !failure) {
        int r = check_layers(&m->PROFILE_reply, payload, e);
        if (r < 0)
            return r;
    }
    list_remove(&c->call);
    switch (c->request_type) {
    case MESSAGE_WORKER_OPEN:
        runner_context_opened(&c->base, failure);
        break;
    case MESSAGE_WORKER_RUN:
        if (!failure)
            runner->deaths = 0;
        if (!failure && c->base.job) {
            c->base.job->run_us = m->INFER_reply.run_us;
            c->base.job->estimate_ns = m->INFER_reply.estimate_ns;
        }
        runner_context_ran(&c->base, failure);
        break;
    case MESSAGE_WORKER_DUMP:
        if (!failure)
            runner->deaths = 0;
        if (!failure && c->base.job)
            c->base.job->n_tensors = m->WORKER_DUMP_reply.n_tensors;
        runner_context_ran(&c->base, failure);
        break;
    default:
        runner_context_profiled(&c->base, failure, failure ? NULL : &m->PROFILE_reply, payload);
    }
    return 0;
}

// Before LOAD is answered no context has a request, and after that nothing else is open.
static bool process_expects(void *owner, const struct frame_header *f)
{
    struct process_runner *runner = owner;
    if (runner->state == STARTING)
        return f->type == (runner->started ? MESSAGE_WORKER_LOAD : MESSAGE_WORKER_START);
    return find_call(runner, f) != NULL;
}

// process_expects() has accepted the frame, so find_call() finds a context.
static int process_on_reply(void *owner, const struct frame_header *f, const struct error *failure,
                            const union message_any *m, struct bytes payload, struct error *e)
{
    struct process_runner *runner = owner;
    if (f->flags & FRAME_MORE)
        return on_more(find_call(runner, f), m, e);
    if (runner->state == READY)
        return on_call_answered(runner, find_call(runner, f), failure, m, payload, e);
    if (!failure && f->type == MESSAGE_WORKER_START)
        return on_started(runner, &m->WORKER_START_reply, e);
    if (!failure)
        return on_model_loaded(runner, &m->WORKER_LOAD_reply, payload, e);
    process_refuse(runner, failure);
    return 0;
}

// ---- workers come and go -----------------------------------------------------------------------

static void on_dead(void *owner, const struct error *why);

static const struct worker_events worker_events = {
    .expects = process_expects,
    .on_reply = process_on_reply,
    .on_dead = on_dead,
};

// Starts a process and sends LOAD without waiting for the answer to START. `load_timeout_ms` covers
// both.
static int start_worker(struct process_runner *runner, struct error *e)
{
    const struct runner_options *o = runner->base.options;
    int r =
        worker_process_new(o, runner->base.model.name, &worker_events, runner, &runner->worker, e);
    if (r < 0)
        return r;
    worker_memories_reset(&runner->memories, runner->worker);
    runner->state = STARTING;
    runner->generation++;
    runner->last_request = 1; // which was WORKER_START
    runner->started = runner->load_overdue = false;
    rknnd_WorkerLoad load = {.size = runner->base.model.size};
    message_set_text(load.name, runner->base.model.name);
    message_set_text(load.options, runner->base.model.options);
    r = send_request(runner, MESSAGE_WORKER_LOAD, next_request(runner), &load,
                     &runner->base.model.fd, 1, e);
    if (r < 0) {
        free_worker(runner);
        return r;
    }
    runner_set_deadline(&runner->base, uv_now(o->loop) + o->load_timeout_ms);
    return 0;
}

// Whether the last death was one too many. Then *e says why no other worker is started. Loading too
// slowly is not tried twice: it would take just as long again.
static bool gives_up(const struct process_runner *runner, const struct error *why, struct error *e)
{
    bool used = runner->base.loaded, robbed = why->code == STATUS_MALLOC_FAIL;
    if (!used && runner->load_overdue)
        error_set(e, STATUS_TIMEOUT, "model %s: %s", runner->base.model.name, why->text);
    else if (runner->deaths >= (used || robbed ? DEATHS_MAX : DEATHS_BEFORE_USE))
        error_set(e, STATUS_DEVICE_UNAVAILABLE,
                  "model %s: %u workers died one after the other and none is started any more; of "
                  "the last one: %s",
                  runner->base.model.name, runner->deaths, why->text);
    else
        return false;
    return true;
}

// 0, then 100, 200, 400 ... ms.
static uint64_t pause_ms(const struct process_runner *runner)
{
    if (runner->deaths <= DEATHS_AT_ONCE)
        return 0;
    return (uint64_t)FIRST_PAUSE_MS << (runner->deaths - DEATHS_AT_ONCE - 1);
}

// Contexts that waited for an answer are unlinked before anyone is told. The deadline of the runner
// is the end of the pause: runner_overdue() then starts the next worker.
static void process_died(struct process_runner *runner, const struct error *why)
{
    struct error e;
    uint64_t now = uv_now(runner->base.options->loop);
    if (runner->state == READY && now - runner->ready_ms >= LIVED_LONG_MS)
        runner->deaths = 0;
    runner->deaths++;
    runner->state = RESTING;
    while (!list_empty(&runner->calls))
        list_remove(runner->calls.next);
    if (gives_up(runner, why, &e)) {
        runner->state = FAILED;
        runner_set_deadline(&runner->base, RUNNER_NEVER);
        log_error("%s", e.text);
        runner_has_lost_contexts(&runner->base, why);
        runner_has_failed(&runner->base, &e);
    } else {
        runner_set_deadline(&runner->base, now + pause_ms(runner));
        runner_has_lost_contexts(&runner->base, why);
    }
}

static void on_dead(void *owner, const struct error *why)
{
    struct process_runner *runner = owner;
    runner->base.options->counters->worker_deaths++;
    free_worker(runner);
    runner->base.worker = 0;
    runner->base.deaths++;
    process_died(runner, why);
}

// Of workers that have died together one has its successor in each turn of the loop: to start one
// takes as long as many messages.
static bool may_replace(struct process_runner *runner)
{
    const struct runner_options *o = runner->base.options;
    uint64_t now_ms = uv_now(o->loop);
    if (o->counters->replaced_ms == now_ms) {
        runner_set_deadline(&runner->base, now_ms + 1);
        return false;
    }
    o->counters->replaced_ms = now_ms;
    return true;
}

// The runner's own deadline: loading took too long, or the pause after a death is over.
static void runner_overdue(struct process_runner *runner)
{
    struct error e;
    if (runner->state == STARTING) {
        runner->load_overdue = true;
        worker_process_kill(runner->worker, "loading took longer than %u ms",
                            runner->base.options->load_timeout_ms);
    } else if (runner->state == RESTING && may_replace(runner) && start_worker(runner, &e) < 0) {
        log_error("model %s: %s", runner->base.model.name, e.text);
        process_died(runner, &e);
    }
}

// A thread in the worker cannot be stopped from here, so the whole process is killed. on_dead()
// follows, and jobs of other contexts run again on its successor.
static void process_overdue(struct runner *base, struct runner_context *c)
{
    struct process_runner *runner = runner_of(base);
    if (!c) {
        runner_overdue(runner);
    } else if (runner->worker) {
        base->ready = false; // nothing is sent to it any more
        worker_process_kill(runner->worker, "%s took too long",
                            c->buffer ? "a job" : "opening or asking a context");
    }
}

// ---- life --------------------------------------------------------------------------------------

static void on_base_closed(struct runner *base)
{
    free(runner_of(base));
}

// Contexts have been freed by their owners, but may have been busy; with the worker gone none is.
static void process_end(struct runner *base)
{
    struct process_runner *runner = runner_of(base);
    struct runner_context *c;
    free_worker(runner);
    while ((c = list_first(&base->contexts, struct runner_context, link)))
        process_close(c);
    runner_done(base, on_base_closed);
}

static const struct runner_kind process_kind = {
    .context_size = sizeof(struct process_context),
    .end = process_end,
    .open = process_open,
    .run = process_run,
    .next = process_next,
    .yield = process_yield,
    .profile = process_profile,
    .close = process_close,
    .overdue = process_overdue,
};

int runner_process_new(const struct runner_options *options, const struct model_file *model,
                       const struct runner_events *events, void *owner, struct runner **ret,
                       struct error *e)
{
    struct process_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return error_no_memory(e, "a runner", sizeof *runner);
    int r = runner_init(&runner->base, &process_kind, options, model, events, owner, e);
    if (r < 0) {
        free(runner);
        return r;
    }
    list_init(&runner->calls);
    worker_memories_init(&runner->memories);
    buffer_pool_on_forget(runner->base.buffers, forget_buffer, runner);
    r = start_worker(runner, e);
    if (r < 0) {
        runner_done(&runner->base, on_base_closed);
        return r;
    }
    *ret = &runner->base;
    return 0;
}
