// Hosts in worker processes.
//
//                  host_new()
//                      v      both answers            worker dies
//     +----------> STARTING -------------> READY -------------------+
//     |                | worker dies                                |
//     | its time       v                                            |
//     +------------ RESTING <---------------------------------------+
//                      | too many deaths without a finished job; or the model is refused
//                      v
//                   FAILED
//
// Nothing that the worker says is trusted: what cannot be is its death.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "protocol/tensor_message.h"
#include "server/runner/runner_kind.h"
#include "server/runner/worker_binding.h"
#include "server/runner/worker_process.h"

// Deaths in a row: so many are followed by a new worker at once, then pauses double from the first
// one on, then it is enough.
#define DEATHS_AT_ONCE    3
#define DEATHS_MAX        8
#define DEATHS_BEFORE_USE 2
#define LIVED_LONG_MS     10000 // that is no death in a row
#define FIRST_PAUSE_MS    100

#define MAX_TENSORS 128 // of each kind; the bound of rknnd.proto

enum state { STARTING, READY, RESTING, FAILED };

struct process_host {
    struct host base;
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

struct process_context {
    struct host_context base;
    uint32_t id;
    struct list call;
    uint32_t request;
    uint16_t request_type;
    struct binding *told; // the worker knows these bindings
};

static struct process_host *host_of(struct host *h)
{
    return container_of(h, struct process_host, base);
}

static struct process_context *context_of(struct host_context *c)
{
    return container_of(c, struct process_context, base);
}

// ---- requests ----------------------------------------------------------------------------------

static uint32_t next_request(struct process_host *h)
{
    return ++h->last_request;
}

// Sends a request with up to two fds, which are duplicated.
static int send_request(struct process_host *h, uint16_t type, uint32_t id, const void *message,
                        const int *fds, int n_fds, struct error *e)
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
    worker_process_send(h->worker, f);
    return 0;
}

// Sends a request of a context, whose answer will find it.
static void call(struct process_context *c, uint16_t type, const void *message)
{
    struct process_host *h = host_of(c->base.host);
    c->request = next_request(h);
    c->request_type = type;
    list_append(&h->calls, &c->call);
    send_request(h, type, c->request, message, NULL, 0, NULL);
}

static struct process_context *find_call(struct process_host *h, const struct frame_header *f)
{
    struct process_context *c;
    list_for_each (c, &h->calls, call)
        if (c->request == f->id)
            return c->request_type == f->type ? c : NULL;
    return NULL;
}

// ---- contexts and jobs -------------------------------------------------------------------------

static void open_context(struct host_context *base)
{
    struct process_context *c = context_of(base);
    binding_unref(steal_ptr(c->told));
    if (c->id == 0) {
        list_init(&c->call);
        c->id = ++host_of(base->host)->last_context;
    }
    call(c, MESSAGE_WORKER_OPEN, &(rknnd_WorkerContext){.context = c->id});
}

static void close_context(struct host_context *base)
{
    struct process_context *c = context_of(base);
    struct process_host *h = host_of(base->host);
    if (base->state == CONTEXT_OPEN && h->worker)
        send_request(h, MESSAGE_WORKER_CLOSE, next_request(h),
                     &(rknnd_WorkerContext){.context = c->id}, NULL, 0, NULL);
    host_context_done(base);
    binding_unref(c->told);
    free(c);
}

// The worker gets to know a buffer once; after that it is a number.
static int pass_buffer(struct process_host *h, struct buffer *b, struct error *e)
{
    if (b->worker == h->generation)
        return 0;
    rknnd_WorkerBuffer m = {
        .buffer = b->id, .input_size = b->input_size, .output_size = b->output_size};
    int fds[] = {b->input_fd, b->output_fd};
    int r = send_request(h, MESSAGE_WORKER_BUFFER, next_request(h), &m, fds, 2, e);
    if (r == 0)
        b->worker = h->generation;
    return r;
}

static int tell_bindings(struct process_context *c, struct binding *b, struct error *e)
{
    struct process_host *h = host_of(c->base.host);
    int r = worker_memories_bind(&h->memories, c->id, c->told, b, e);
    if (r < 0 || c->told == b)
        return r;
    binding_unref(c->told);
    c->told = binding_ref(b);
    return 0;
}

static void forget_buffer(struct buffer *b, void *owner)
{
    struct process_host *h = owner;
    if (h->worker && b->worker == h->generation)
        send_request(h, MESSAGE_WORKER_BUFFER_FREE, next_request(h),
                     &(rknnd_WorkerBuffer){.buffer = b->id}, NULL, 0, NULL);
}

static void put_inputs(const struct host_job *job, uint32_t n, rknnd_WorkerRun *m)
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

static void put_outputs(const struct host_info *info, const struct host_job *job,
                        rknnd_WorkerRun *m)
{
    const struct tensor_io *outputs = host_info_row(info, job->row) + info->n_inputs;
    uint64_t offset = 0;
    m->output_offsets_count = (pb_size_t)info->n_outputs;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        bool bound = binding_find(job->binding, info->n_inputs + i);
        m->output_offsets[i] = bound ? 0 : offset;
        offset += bound ? 0 : outputs[i].logical.size;
    }
}

static void put_run(const struct process_context *c, const struct host_job *job, rknnd_WorkerRun *m)
{
    m->context = c->id;
    m->buffer = job->buffer->id;
    m->core_mask = job->core_mask;
    m->divide_batch = job->divide_batch;
    m->row = job->row;
    m->collect_perf = job->collect_perf;
    put_inputs(job, c->base.host->info.n_inputs, m);
    custom_set_to_message(&job->custom, m->custom_nodes);
    m->custom_inputs = job->custom_inputs;
    m->custom_outputs = job->custom_outputs;
}

static void dump(struct process_context *c, const struct host_job *job)
{
    rknnd_WorkerDump m = {.has_run = true, .window = job->window, .replace = job->replace};
    message_set_text(m.only, job->only);
    put_run(c, job, &m.run);
    call(c, MESSAGE_WORKER_DUMP, &m);
}

static void run(struct host_context *base)
{
    struct process_context *c = context_of(base);
    const struct host_job *job = base->job;
    struct error e;
    if (pass_buffer(host_of(base->host), job->buffer, &e) < 0 ||
        tell_bindings(c, job->binding, &e) < 0) {
        host_context_ran(base, &e);
        return;
    }
    if (job->part) {
        dump(c, job);
        return;
    }
    rknnd_WorkerRun m; // 7 KB, of which only what is counted is ever looked at
    put_run(c, job, &m);
    put_outputs(&base->host->info, job, &m);
    call(c, MESSAGE_WORKER_RUN, &m);
}

static void next(struct host_context *base, bool stop)
{
    struct process_host *h = host_of(base->host);
    rknnd_WorkerNext m = {.context = context_of(base)->id, .stop = stop};
    if (h->worker)
        send_request(h, MESSAGE_WORKER_NEXT, next_request(h), &m, NULL, 0, NULL);
}

static void profile(struct host_context *base)
{
    struct process_context *c = context_of(base);
    call(c, MESSAGE_WORKER_PROFILE, &(rknnd_WorkerContext){.context = c->id});
}

// ---- answers -----------------------------------------------------------------------------------

static int take_info(struct process_host *h, const rknnd_ContextInfo *m, struct bytes payload,
                     struct error *e)
{
    struct host_info *info = &h->base.info;
    if (m->n_inputs > MAX_TENSORS || m->n_outputs > MAX_TENSORS)
        return error_set(e, STATUS_FAIL, "a model with %u inputs and %u outputs", m->n_inputs,
                         m->n_outputs);
    if (m->core_limit == 0 || m->core_limit > info->device.n_cores || m->batch == 0)
        return error_set(e, STATUS_FAIL, "a model for %u cores and a batch of %u", m->core_limit,
                         m->batch);
    uint32_t n_rows = m->n_rows ? m->n_rows : 1;
    if (n_rows > NPU_MAX_ROWS)
        return error_set(e, STATUS_FAIL, "a model with %u rows of shapes", n_rows);
    int r = host_info_take_custom(info, &payload, m->n_custom, e);
    if (r == 0)
        r = tensor_list_decode(payload, (size_t)n_rows * (m->n_inputs + m->n_outputs),
                               &info->tensors, e);
    if (r < 0)
        return r;
    info->n_inputs = m->n_inputs;
    info->n_outputs = m->n_outputs;
    info->n_rows = n_rows;
    info->native_attrs = m->native_attrs;
    info->no_custom = m->no_custom;
    info->weight_size = m->weight_size;
    info->internal_size = m->internal_size;
    info->memory_size = m->memory_size;
    info->core_limit = m->core_limit;
    info->batch = m->batch;
    info->estimate_assumed = m->estimate_assumed;
    info->n_unestimated = m->n_unestimated;
    message_set_text(info->custom_string, m->custom_string);
    message_set_text(info->estimate_chip, m->estimate_chip);
    return 0;
}

static void free_worker(struct process_host *h)
{
    worker_memories_reset(&h->memories, NULL);
    worker_process_free(steal_ptr(h->worker));
}

// The model or its device is refused: no other worker would say anything else.
static void refuse(struct process_host *h, const struct error *e)
{
    h->state = FAILED;
    host_set_deadline(&h->base, HOST_NEVER);
    free_worker(h);
    host_has_lost_contexts(&h->base, e);
    host_has_failed(&h->base, e);
}

static int on_started(struct process_host *h, const rknnd_Device *m, struct error *e)
{
    h->started = true;
    return h->base.loaded ? 0 : worker_process_take_device(m, &h->base.info.device, e);
}

// Device and file are the same for every worker, and so is what the first one said about them.
static int on_model_loaded(struct process_host *h, const rknnd_ContextInfo *m, struct bytes payload,
                           struct error *e)
{
    if (!h->base.info.tensors) {
        int r = take_info(h, m, payload, e);
        if (r < 0)
            return r;
    }
    h->state = READY;
    h->ready_ms = uv_now(h->base.options->loop);
    host_set_deadline(&h->base, HOST_NEVER);
    host_is_ready(&h->base);
    return 0;
}

static int check_layers(const rknnd_ProfileReply *m, struct bytes layers, struct error *e)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        rknnd_Layer layer;
        int r = message_sequence_take(rknnd_Layer_fields, &layers, &layer, e);
        if (r < 0)
            return r;
    }
    if (layers.size > 0)
        return error_set(e, STATUS_FAIL, "%zu bytes too many behind %u layers", layers.size,
                         m->n_layers);
    return 0;
}

static int on_part(struct process_context *c, const rknnd_DumpReply *part, struct error *e)
{
    const struct host_context *base = &c->base;
    if (base->waits || !base->buffer || part->size > base->buffer->output_size ||
        (base->job && part->size > base->job->window) ||
        (base->job && part->wanted && !base->job->replace))
        return error_set(e, STATUS_FAIL, "a part of %llu bytes of a dump",
                         (unsigned long long)part->size);
    host_context_dumped(&c->base, part);
    return 0;
}

static int on_custom(struct process_context *c, const rknnd_CustomCall *m, struct error *e)
{
    const struct host_context *base = &c->base;
    if (base->waits || (base->job && !custom_set_has(&base->job->custom, m->node)))
        return error_set(e, STATUS_FAIL, "a call for node %u", m->node);
    host_context_called(&c->base, m->node);
    return 0;
}

// An answer that is not the last one.
static int on_more(struct process_context *c, const union message_any *m, struct error *e)
{
    bool run = c->request_type == MESSAGE_WORKER_RUN;
    if (!run && !m->WORKER_DUMP_reply.has_call)
        return on_part(c, &m->WORKER_DUMP_reply, e);
    return on_custom(c, run ? &m->WORKER_RUN_reply.call : &m->WORKER_DUMP_reply.call, e);
}

static int on_call_answered(struct process_host *h, struct process_context *c,
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
        host_context_opened(&c->base, failure);
        break;
    case MESSAGE_WORKER_RUN:
        if (!failure)
            h->deaths = 0;
        if (!failure && c->base.job) {
            c->base.job->run_us = m->INFER_reply.run_us;
            c->base.job->estimate_ns = m->INFER_reply.estimate_ns;
        }
        host_context_ran(&c->base, failure);
        break;
    case MESSAGE_WORKER_DUMP:
        if (!failure)
            h->deaths = 0;
        if (!failure && c->base.job)
            c->base.job->n_tensors = m->WORKER_DUMP_reply.n_tensors;
        host_context_ran(&c->base, failure);
        break;
    default:
        host_context_profiled(&c->base, failure, failure ? NULL : &m->PROFILE_reply, payload);
    }
    return 0;
}

static bool expects(void *owner, const struct frame_header *f)
{
    struct process_host *h = owner;
    if (h->state == STARTING)
        return f->type == (h->started ? MESSAGE_WORKER_LOAD : MESSAGE_WORKER_START);
    return find_call(h, f) != NULL;
}

static int on_reply(void *owner, const struct frame_header *f, struct bytes message,
                    struct bytes payload, struct error *e)
{
    struct process_host *h = owner;
    union message_any m;
    struct error failure;
    int r = message_decode(message_fields(f), message, &m, e);
    if (r < 0)
        return r;
    bool failed = f->flags & FRAME_ERROR;
    if (failed)
        message_error_take(&m.error, &failure);
    if (f->flags & FRAME_MORE)
        return on_more(find_call(h, f), &m, e);
    if (h->state == READY)
        return on_call_answered(h, find_call(h, f), failed ? &failure : NULL, &m, payload, e);
    if (failed)
        refuse(h, &failure);
    else if (f->type == MESSAGE_WORKER_START)
        r = on_started(h, &m.WORKER_START_reply, e);
    else
        r = on_model_loaded(h, &m.WORKER_LOAD_reply, payload, e);
    return r;
}

// ---- workers come and go -----------------------------------------------------------------------

static void on_dead(void *owner, const struct error *why);

static const struct worker_events worker_events = {
    .expects = expects,
    .on_reply = on_reply,
    .on_dead = on_dead,
};

static int start_worker(struct process_host *h, struct error *e)
{
    const struct host_options *o = h->base.options;
    int r = worker_process_new(o, h->base.model.name, &worker_events, h, &h->worker, e);
    if (r < 0)
        return r;
    worker_memories_reset(&h->memories, h->worker);
    h->state = STARTING;
    h->generation++;
    h->last_request = 1; // which was WORKER_START
    h->started = h->load_overdue = false;
    rknnd_WorkerLoad load = {.size = h->base.model.size};
    message_set_text(load.name, h->base.model.name);
    message_set_text(load.options, h->base.model.options);
    r = send_request(h, MESSAGE_WORKER_LOAD, next_request(h), &load, &h->base.model.fd, 1, e);
    if (r < 0) {
        free_worker(h);
        return r;
    }
    h->base.worker = worker_process_pid(h->worker);
    host_set_deadline(&h->base, uv_now(o->loop) + o->load_timeout_ms);
    return 0;
}

// Whether the last death was one too many; *e says why there will be no other worker.
static bool gives_up(const struct process_host *h, const struct error *why, struct error *e)
{
    bool used = h->base.loaded;
    if (!used && h->load_overdue)
        error_set(e, STATUS_TIMEOUT, "model %s: %s", h->base.model.name, why->text);
    else if (h->deaths >= (used ? DEATHS_MAX : DEATHS_BEFORE_USE))
        error_set(e, STATUS_DEVICE_UNAVAILABLE,
                  "model %s: %u workers died one after the other and none is started any more; of "
                  "the last one: %s",
                  h->base.model.name, h->deaths, why->text);
    else
        return false;
    return true;
}

static uint64_t pause_ms(const struct process_host *h)
{
    if (h->deaths <= DEATHS_AT_ONCE)
        return 0;
    return (uint64_t)FIRST_PAUSE_MS << (h->deaths - DEATHS_AT_ONCE - 1);
}

static void died(struct process_host *h, const struct error *why)
{
    struct error e;
    uint64_t now = uv_now(h->base.options->loop);
    if (h->state == READY && now - h->ready_ms >= LIVED_LONG_MS)
        h->deaths = 0;
    h->deaths++;
    h->state = RESTING;
    while (!list_empty(&h->calls))
        list_remove(h->calls.next);
    if (gives_up(h, why, &e)) {
        h->state = FAILED;
        host_set_deadline(&h->base, HOST_NEVER);
        log_error("%s", e.text);
        host_has_lost_contexts(&h->base, why);
        host_has_failed(&h->base, &e);
    } else {
        host_set_deadline(&h->base, now + pause_ms(h));
        host_has_lost_contexts(&h->base, why);
    }
}

static void on_dead(void *owner, const struct error *why)
{
    struct process_host *h = owner;
    h->base.options->counters->worker_deaths++;
    free_worker(h);
    h->base.worker = 0;
    h->base.deaths++;
    died(h, why);
}

static void host_overdue(struct process_host *h)
{
    struct error e;
    if (h->state == STARTING) {
        h->load_overdue = true;
        worker_process_kill(h->worker, "loading took longer than %u ms",
                            h->base.options->load_timeout_ms);
    } else if (h->state == RESTING && start_worker(h, &e) < 0) {
        log_error("model %s: %s", h->base.model.name, e.text);
        died(h, &e);
    }
}

static void overdue(struct host *base, struct host_context *c)
{
    struct process_host *h = host_of(base);
    if (!c) {
        host_overdue(h);
    } else if (h->worker) {
        base->ready = false; // nothing is sent to it any more
        worker_process_kill(h->worker, "%s took too long",
                            c->buffer ? "a job" : "opening or asking a context");
    }
}

// ---- life --------------------------------------------------------------------------------------

static void on_base_closed(struct host *base)
{
    free(host_of(base));
}

static void end(struct host *base)
{
    struct process_host *h = host_of(base);
    struct host_context *c;
    free_worker(h);
    while ((c = list_first(&base->contexts, struct host_context, link)))
        close_context(c);
    host_done(base, on_base_closed);
}

static const struct host_kind process_kind = {
    .context_size = sizeof(struct process_context),
    .end = end,
    .open = open_context,
    .run = run,
    .next = next,
    .profile = profile,
    .close = close_context,
    .overdue = overdue,
};

int host_process_new(const struct host_options *options, const struct model_file *model,
                     const struct host_events *events, void *owner, struct host **ret,
                     struct error *e)
{
    struct process_host *h = calloc(1, sizeof *h);
    if (!h)
        return error_no_memory(e, "a host", sizeof *h);
    int r = host_init(&h->base, &process_kind, options, model, events, owner, e);
    if (r < 0) {
        free(h);
        return r;
    }
    list_init(&h->calls);
    worker_memories_init(&h->memories);
    buffer_pool_on_forget(h->base.buffers, forget_buffer, h);
    r = start_worker(h, e);
    if (r < 0) {
        host_done(&h->base, on_base_closed);
        return r;
    }
    *ret = &h->base;
    return 0;
}
