// What a worker does for each request.
//
// Handlers run on the thread that holds `reading`. A negative status with a text is sent as the
// answer; a request that breaks the protocol ends the process, because it comes from the daemon,
// which is trusted to be correct. Contexts, buffers and memories have numbers that the daemon gives
// out; each kind is a hash table of WORKER_BUCKETS lists.
//
//   START -> LOAD -> OPEN -> BUFFER, MEMORY, BIND ... -> RUN or DUMP ... -> CLOSE
//     |              a context                                               the context
//     +----> DESCRIBE, instead of all that
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "protocol/custom_message.h"
#include "protocol/tensor_message.h"
#include "worker/layer_message.h"
#include "worker/sandbox/sandbox.h"
#include "worker/worker_memory.h"

// A request while it is being handled.
struct worker_request {
    struct worker *worker;
    const struct frame_header *header;
    union message_any *message;
    struct worker_context *run; // to be done next
};

// ---- numbers -----------------------------------------------------------------------------------

void *worker_find(struct list *buckets, uint32_t number)
{
    struct worker_object *n;
    list_for_each (n, &buckets[number % WORKER_BUCKETS], link)
        if (n->number == number)
            return n;
    return NULL;
}

void worker_add(struct list *buckets, struct worker_object *n, uint32_t number)
{
    if (worker_find(buckets, number))
        worker_die("number %u is given twice", number);
    n->number = number;
    list_append(&buckets[number % WORKER_BUCKETS], &n->link);
}

// A context with no run in progress. The daemon sends nothing for a context before its run is
// answered.
static struct worker_context *worker_idle_context(const struct worker_request *r, uint32_t number)
{
    struct worker_context *c = worker_find(r->worker->contexts, number);
    if (!c || atomic_load(&c->running))
        worker_die("there is no idle context %u", number);
    return c;
}

// ---- answers -----------------------------------------------------------------------------------

// Answers with a message and, if size > 0, a payload. The frame points to the payload, which may go
// when this returns, because worker_answer() sends all of it.
static void worker_reply(const struct worker_request *r, const void *message, const void *payload,
                         size_t size)
{
    const struct message_row *row = message_row(r->header->type);
    struct iovec rest = {(void *)payload, size};
    worker_answer(r->worker, message_frame(r->header->type, FRAME_REPLY, r->header->id, row->reply,
                                           message, &rest, size > 0, NULL, NULL));
}

// With a file, which is the frame's from now on; -1: with none.
static void worker_reply_file(const struct worker_request *r, const void *message, int fd)
{
    const struct message_row *row = message_row(r->header->type);
    struct frame_out *f = message_frame(r->header->type, FRAME_REPLY, r->header->id, row->reply,
                                        message, NULL, 0, NULL, NULL);
    if (f && fd >= 0)
        f->fds[f->n_fds++] = fd;
    worker_answer(r->worker, f);
}

static void worker_reply_error(const struct worker_request *r, const struct error *e)
{
    worker_answer(r->worker, message_error_frame(r->header->type, r->header->id, e));
}

// ---- device and model --------------------------------------------------------------------------

// The next file descriptor that came with the present frame; the caller closes it.
static int take_file(const struct worker_request *r)
{
    int fd = frame_reader_take_fd(&r->worker->reader);
    if (fd < 0)
        worker_die("a file is missing");
    return fd;
}

static void set_log_level(uint32_t level)
{
    if (level > LOG_TRACE)
        worker_die("log level %u", level);
    log_set_level((enum log_level)level);
}

// One of the backend's paths.
static int add_path(void *sandbox, const char *path, enum npu_access access, struct error *e)
{
    return sandbox_add(sandbox, path, access, e);
}

// From here on nothing but models and plugins is new, and those are not trusted.
static int worker_enter_sandbox(struct worker *w, const rknnd_WorkerStart *m, struct error *e)
{
    const struct npu_backend *backend = w->loaded.backend;
    cleanup(free_p) struct sandbox *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "a sandbox", sizeof *s);
    if (m->sandbox > SANDBOX_REQUIRED)
        worker_die("sandbox mode %u", m->sandbox);
    s->mode = (enum sandbox_mode)m->sandbox;
    s->user = (struct sandbox_user){.uid = m->uid, .gid = m->gid, .n_groups = m->groups_count};
    memcpy(s->user.groups, m->groups, m->groups_count * sizeof *m->groups);
    int r = sandbox_add(s, w->module_dir, NPU_ACCESS_READ, e);
    if (r == 0)
        r = sandbox_add(s, w->plugin_dir, NPU_ACCESS_READ, e);
    if (r == 0 && backend->list_paths)
        r = backend->list_paths(m->options, add_path, s, e);
    return r < 0 ? r : sandbox_enter(s, e);
}

// START: opens the backend's device and tells what it is. The file that comes with it is the memory
// of breadcrumbs; its mapping lasts as long as the process. The one that goes back counts this
// process's threads: the daemon may not see processes that cannot be dumped. The threads that runs
// need start here: the daemon believes a worker that has none to be had until it has answered.
static int handle_start(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerStart *m = &r->message->WORKER_START_request;
    struct worker *w = r->worker;
    struct loaded_backend *loaded = &w->loaded;
    if (loaded->backend)
        worker_die("it is started twice");
    cleanup(fd_close_p) int breadcrumbs = take_file(r);
    set_log_level(m->log_level);
    message_set_text(w->plugin_dir, m->plugin_dir);
    plugins_init(&w->plugins, w->plugin_dir, w->module_dir,
                 worker_map(breadcrumbs, sizeof(struct breadcrumbs), PROT_READ | PROT_WRITE));
    cleanup(fd_close_p) int threads = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int s = loaded_backend_open_module(loaded, w->module_dir, m->backend, e);
    if (s == 0)
        s = worker_enter_sandbox(w, m, e);
    if (s == 0)
        s = loaded_backend_open_device(loaded, m->options, e);
    if (s < 0)
        return s;
    const struct npu_device_info *d = loaded->backend->device_info(loaded->device);
    // One thread more than there are cores, so that a request is read even while all cores run. A
    // device whose submit never blocks needs no further threads.
    worker_start_threads(w, d->never_blocks ? 1 : d->n_cores + 1);
    rknnd_Device reply = {.n_cores = d->n_cores,
                          .sram_size = d->sram_size,
                          .dma = d->dma,
                          .clock_hz = d->clock_hz,
                          .timing = d->timing,
                          .slices = d->slices};
    message_set_text(reply.chip, d->chip);
    message_set_text(reply.backend, d->backend);
    message_set_text(reply.runtime_version, d->runtime_version);
    message_set_text(reply.driver_version, d->driver_version);
    worker_reply_file(r, &reply, steal_fd(&threads));
    return 0;
}

static int check_started(const struct loaded_backend *loaded, struct error *e)
{
    return loaded->device ? 0 : error_set(e, STATUS_DEVICE_UNAVAILABLE, "the worker has no device");
}

static uint8_t *encode_tensors(const struct npu_model_info *m, size_t *ret_size)
{
    size_t n;
    cleanup(free_p) const struct tensor_io **all = loaded_backend_tensors(m, &n);
    return all ? tensor_list_encode(all, n, ret_size) : NULL;
}

// The payload that describes a model: its custom operators, then its inputs and outputs. Allocated;
// the caller frees it. NULL: out of memory.
static uint8_t *encode_model(const struct npu_model_info *m, size_t *ret_size)
{
    size_t custom_size, tensors_size;
    cleanup(free_p) uint8_t *custom = custom_list_encode(m->custom, m->n_custom, &custom_size);
    cleanup(free_p) uint8_t *tensors = encode_tensors(m, &tensors_size);
    uint8_t *all = custom && tensors ? realloc(custom, custom_size + tensors_size + 1) : NULL;
    if (!all)
        return NULL;
    steal_ptr(custom);
    memcpy(all + custom_size, tensors, tensors_size);
    *ret_size = custom_size + tensors_size;
    return all;
}

static int answer_model(const struct worker_request *r, const struct npu_model_info *m,
                        struct error *e)
{
    size_t size;
    cleanup(free_p) uint8_t *list = encode_model(m, &size);
    if (!list)
        return error_no_memory(e, "a model's description", 0);
    rknnd_ContextInfo reply;
    loaded_backend_model_message(m, &reply);
    worker_reply(r, &reply, list, size);
    return 0;
}

// LOAD: loads the one model of this worker.
static int handle_load(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerLoad *m = &r->message->WORKER_LOAD_request;
    struct loaded_backend *loaded = &r->worker->loaded;
    cleanup(fd_close_p) int fd = take_file(r);
    int s = check_started(loaded, e);
    struct model_file file = {fd, m->size, m->name, m->options};
    if (s == 0)
        s = loaded_backend_load(loaded, &file, e);
    malloc_trim(0); // what packing the weights needed for a while
    if (s < 0)
        return s;
    return answer_model(r, loaded->backend->model_info(loaded->model), e);
}

static int handle_describe(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerDescribe *m = &r->message->WORKER_DESCRIBE_request;
    struct loaded_backend *loaded = &r->worker->loaded;
    cleanup(fd_close_p) int fd = take_file(r);
    cleanup(free_p) char *json = NULL;
    int s = check_started(loaded, e);
    struct model_file file = {fd, m->size, m->name, m->options};
    if (s == 0)
        s = loaded_backend_describe(loaded, &file, &json, e);
    if (s == 0)
        worker_reply(r, &(rknnd_Empty){0}, json, strlen(json));
    return s;
}

// ---- contexts ----------------------------------------------------------------------------------

// Also of a context that is half made.
static void context_free(struct worker_context *c)
{
    if (c->npu)
        c->worker->loaded.backend->context_free(c->npu);
    custom_proxy_done(&c->proxy);
    gate_done(&c->gate);
    free(c->inputs);
    free(c->outputs);
    free(c->bound);
    free(c);
}

// Tables for one run at a time: inputs, outputs, and where they are bound. Each has one element
// more than needed, because calloc(0) may return NULL.
static int context_new(struct worker *w, struct worker_context **ret, struct error *e)
{
    const struct npu_model_info *info = w->loaded.backend->model_info(w->loaded.model);
    struct worker_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a context", sizeof *c);
    c->worker = w;
    gate_init(&c->gate);
    c->inputs = calloc((size_t)info->n_inputs + 1, sizeof *c->inputs);
    c->outputs = calloc((size_t)info->n_outputs + 1, sizeof *c->outputs);
    c->bound = calloc((size_t)info->n_inputs + info->n_outputs + 1, sizeof *c->bound);
    int s = c->inputs && c->outputs && c->bound ? 0 : error_no_memory(e, "a context", sizeof *c);
    if (s == 0)
        s = custom_proxy_init(&c->proxy, info, &w->plugins, e);
    if (s == 0)
        s = w->loaded.backend->context_new(w->loaded.model, &c->npu, e);
    if (s < 0) {
        context_free(c);
        return s;
    }
    *ret = c;
    return 0;
}

static int handle_open(struct worker_request *r, struct error *e)
{
    struct worker_context *c;
    if (!r->worker->loaded.model)
        worker_die("a context of no model");
    int s = context_new(r->worker, &c, e);
    if (s < 0)
        return s;
    worker_add(r->worker->contexts, &c->object, r->message->WORKER_OPEN_request.context);
    worker_reply(r, &(rknnd_Empty){0}, NULL, 0);
    return 0;
}

static int handle_close(struct worker_request *r, struct error *e)
{
    struct worker_context *c = worker_idle_context(r, r->message->WORKER_CLOSE_request.context);
    (void)e;
    list_remove(&c->object.link);
    context_free(c);
    return 0;
}

// PROFILE: layer times of the context's last run that collected them.
static int handle_profile(struct worker_request *r, struct error *e)
{
    struct worker_context *c = worker_idle_context(r, r->message->WORKER_PROFILE_request.context);
    size_t n, size;
    const struct npu_layer *layers = r->worker->loaded.backend->context_layers(c->npu, &n);
    cleanup(free_p) uint8_t *list = layer_list_encode(layers, n, &size);
    if (!list)
        return error_no_memory(e, "a profile", n * sizeof *layers);
    rknnd_ProfileReply reply = {.n_layers = (uint32_t)n, .run_us = c->job.run_us};
    worker_reply(r, &reply, list, size);
    return 0;
}

// ---- memory ------------------------------------------------------------------------------------

static int handle_buffer(struct worker_request *r, struct error *e)
{
    (void)e;
    worker_buffer_add(r->worker, &r->message->WORKER_BUFFER_request);
    return 0;
}

static int handle_buffer_free(struct worker_request *r, struct error *e)
{
    (void)e;
    worker_buffer_drop(r->worker, r->message->WORKER_BUFFER_FREE_request.buffer);
    return 0;
}

static int handle_memory(struct worker_request *r, struct error *e)
{
    (void)e;
    worker_memory_add(r->worker, &r->message->WORKER_MEMORY_request);
    return 0;
}

static int handle_memory_free(struct worker_request *r, struct error *e)
{
    (void)e;
    worker_memory_drop(r->worker, r->message->WORKER_MEMORY_FREE_request.memory);
    return 0;
}

static int handle_bind(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerBind *m = &r->message->WORKER_BIND_request;
    (void)e;
    worker_bind(worker_idle_context(r, m->context), m);
    return 0;
}

static int handle_internal(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerInternal *m = &r->message->WORKER_INTERNAL_request;
    (void)e;
    worker_set_internal(worker_idle_context(r, m->context), m);
    return 0;
}

// ---- runs --------------------------------------------------------------------------------------

// Fills the run's inputs: from the memory that a tensor is bound to, else from the job's buffer.
// Offsets and sizes are checked even though the daemon is trusted, because a mistake there would
// read out of bounds.
static void prepare_inputs(struct worker_context *c, const struct worker_buffer *b,
                           const rknnd_WorkerRun *m)
{
    for (pb_size_t i = 0; i < m->inputs_count; i++) {
        const rknnd_InferInput *form = &m->inputs[i].form;
        struct bytes data;
        if (c->bound[i].there) {
            c->inputs[i] = c->bound[i].input;
            continue;
        }
        if (!bytes_slice((struct bytes){b->input, (size_t)b->input_size}, m->inputs[i].offset,
                         form->size, &data))
            worker_die("input %u lies outside its buffer", i);
        c->inputs[i] = (struct npu_input){.data = data.data,
                                          .size = data.size,
                                          .type = form->type,
                                          .layout = form->layout,
                                          .pass_through = form->pass_through,
                                          .converted = form->converted};
    }
}

// The same for outputs. `m->shape_set` selects the sizes.
static void prepare_outputs(struct worker_context *c, const struct worker_buffer *b,
                            const rknnd_WorkerRun *m, const struct npu_model_info *info)
{
    const struct tensor_io *outputs = info->outputs + (size_t)m->shape_set * info->n_outputs;
    for (pb_size_t i = 0; i < m->output_offsets_count; i++) {
        const struct worker_bound *bound = &c->bound[info->n_inputs + i];
        size_t size = outputs[i].logical.size;
        struct bytes data;
        if (bound->there) {
            c->outputs[i] = bound->output;
            continue;
        }
        if (!bytes_slice((struct bytes){b->output, (size_t)b->output_size}, m->output_offsets[i],
                         size, &data))
            worker_die("output %u lies outside its buffer", i);
        c->outputs[i] = (struct npu_output){.data = (void *)data.data, .size = size};
    }
}

// Answers a run or dump, on whichever thread finished it. `running` is cleared before the answer is
// sent, since the daemon may use the context again as soon as it has read it.
static void end_run(struct worker_context *c, int status, const struct error *e)
{
    struct worker *w = c->worker;
    struct error after;
    struct frame_out *f;
    if (dma_sync_end(&c->sync, &c->job, &after) < 0 && status == 0) {
        status = after.code;
        e = &after;
    }
    if (status < 0)
        f = message_error_frame(c->type, c->request, e);
    else if (c->type == MESSAGE_WORKER_DUMP)
        f = message_frame(c->type, FRAME_REPLY, c->request, rknnd_DumpReply_fields,
                          &(rknnd_DumpReply){.n_tensors = c->tap.n_tensors}, NULL, 0, NULL, NULL);
    else
        f = message_frame(
            c->type, FRAME_REPLY, c->request, rknnd_InferReply_fields,
            &(rknnd_InferReply){.run_us = c->job.run_us, .estimate_ns = c->job.estimate_ns}, NULL,
            0, NULL, NULL);
    atomic_store(&c->running, false);
    worker_answer(w, f);
}

// From the backend, on any thread. The answer goes when the backend has both called done() and
// returned from submit(): until then it may still touch the context. `left` counts the two, and
// whoever comes second answers.
static void on_job_done(struct npu_job *job, int status)
{
    struct worker_context *c = job->owner;
    c->status = status;
    if (atomic_fetch_sub(&c->left, 1) == 1)
        end_run(c, status, &job->error);
}

static void worker_run_samples(struct worker_context *c)
{
    struct error e;
    int s = loaded_backend_run_samples(&c->worker->loaded, c->npu, &c->job, c->inputs, c->outputs,
                                       c->samples, &e);
    end_run(c, s, &e);
}

// Without `reading`. A context that has no valid internal memory fails its runs, with the reason
// that worker_set_internal() kept.
void worker_run(struct worker_context *c)
{
    struct error e = c->unusable;
    int s = e.code;
    if (s == 0)
        s = dma_sync_begin(&c->sync, &c->job, &e);
    if (s == 0 && c->samples > 1) {
        worker_run_samples(c);
        return;
    }
    if (s == 0)
        s = c->worker->loaded.backend->context_submit(c->npu, &c->job, &e);
    if (s < 0)
        end_run(c, s, &e);
    else if (atomic_fetch_sub(&c->left, 1) == 1)
        end_run(c, c->status, &c->job.error);
}

// On the run's thread: tells the daemon that it waits between two slices.
static void post_yielded(struct run_slices *s)
{
    struct worker_context *c = container_of(s, struct worker_context, slices);
    worker_answer(c->worker,
                  message_frame(MESSAGE_WORKER_RUN, FRAME_REPLY | FRAME_MORE, c->request,
                                rknnd_InferReply_fields, &(rknnd_InferReply){.yielded = true}, NULL,
                                0, NULL, NULL));
}

// A dump waits at each of its parts anyway.
static void prepare_slices(struct worker_context *c, const rknnd_WorkerRun *m)
{
    run_slices_start(&c->slices, m->slice_us, &c->gate, post_yielded);
    if (m->slice_us && c->type == MESSAGE_WORKER_RUN)
        c->job.slices = &c->slices.npu;
}

// Fills the context's npu_job. From here the context is busy until end_run().
static void prepare_run(struct worker_request *r, struct worker_context *c,
                        const struct worker_buffer *b, const rknnd_WorkerRun *m,
                        const struct npu_model_info *info)
{
    if (m->inputs_count != info->n_inputs)
        worker_die("a run with %u inputs", m->inputs_count);
    prepare_inputs(c, b, m);
    c->request = r->header->id;
    c->type = r->header->type;
    c->samples = 0;
    c->job = (struct npu_job){.inputs = c->inputs,
                              .outputs = c->outputs,
                              .shape_set = m->shape_set,
                              .core_mask = m->core_mask,
                              .divide_batch = m->divide_batch,
                              .stop = &c->gate.stopped,
                              .collect_perf = m->collect_perf,
                              .done = on_job_done,
                              .owner = c};
    c->sync = (struct dma_sync){.n_inputs = info->n_inputs, .n_outputs = info->n_outputs};
    gate_start(&c->gate);
    worker_prepare_calls(c, b, m, info);
    prepare_slices(c, m);
    atomic_store(&c->left, 2);
    atomic_store(&c->running, true);
    r->run = c;
}

// As with all that the daemon says of memory, in spite of trust.
static void check_samples(const struct worker_context *c, const rknnd_WorkerRun *m,
                          const struct npu_model_info *info)
{
    for (uint32_t i = 0; i < info->n_inputs + info->n_outputs && m->samples > 1; i++) {
        const struct worker_bound *b = &c->bound[i];
        size_t size = i < info->n_inputs ? b->input.size : b->output.size;
        if (!b->there || size > b->room / m->samples)
            worker_die("%u samples of tensor %u, which are not in memory", m->samples, i);
    }
}

// RUN: checks and prepares it; worker_run() executes it after `reading` has been released.
static int handle_run(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerRun *m = &r->message->WORKER_RUN_request;
    struct worker_context *c = worker_idle_context(r, m->context);
    const struct worker_buffer *b = worker_buffer_find(r->worker, m->buffer);
    const struct loaded_backend *loaded = &r->worker->loaded;
    const struct npu_model_info *info = loaded->backend->model_info(loaded->model);
    (void)e;
    if (m->output_offsets_count != info->n_outputs)
        worker_die("a run with %u outputs", m->output_offsets_count);
    if (m->shape_set && m->shape_set >= info->n_shape_sets)
        worker_die("a run in shape set %u", m->shape_set);
    prepare_outputs(c, b, m, info);
    check_samples(c, m, info);
    prepare_run(r, c, b, m, info);
    c->samples = m->samples;
    return 0;
}

// On the run's thread: tells the daemon that the window holds a part, or that one is wanted.
static void post_part(struct dump_tap *t)
{
    struct worker_context *c = container_of(t, struct worker_context, tap);
    worker_answer(c->worker,
                  message_frame(MESSAGE_WORKER_DUMP, FRAME_REPLY | FRAME_MORE, c->request,
                                rknnd_DumpReply_fields, &t->part, NULL, 0, NULL, NULL));
}

// DUMP: a run whose layers pass through a window at the start of the job's output buffer. It
// returns no outputs, so none are given to the backend.
static int handle_dump(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerDump *m = &r->message->WORKER_DUMP_request;
    struct worker_context *c = worker_idle_context(r, m->run.context);
    const struct worker_buffer *b = worker_buffer_find(r->worker, m->run.buffer);
    const struct loaded_backend *loaded = &r->worker->loaded;
    const struct npu_model_info *info = loaded->backend->model_info(loaded->model);
    int s = dump_tap_check(loaded->backend->device_info(loaded->device), m->replace, e);
    if (s < 0)
        return s;
    if (m->window == 0 || m->window > b->output_size)
        worker_die("a dump with a window of %llu bytes", (unsigned long long)m->window);
    for (uint32_t i = 0; i < info->n_outputs; i++)
        c->outputs[i] = (struct npu_output){0};
    prepare_run(r, c, b, &m->run, info);
    dump_tap_start(&c->tap, m->only, m->replace, b->output, m->window, &c->gate, post_part);
    c->job.tap = &c->tap.npu;
    return 0;
}

// NEXT: opens the gate of a run, or asks it to wait there. The context is busy, so
// worker_idle_context() would refuse it.
static int handle_next(struct worker_request *r, struct error *e)
{
    const rknnd_WorkerNext *m = &r->message->WORKER_NEXT_request;
    struct worker_context *c = worker_find(r->worker->contexts, m->context);
    (void)e;
    if (!c)
        worker_die("there is no context %u", m->context);
    if (m->yield)
        run_slices_ask(&c->slices);
    else
        gate_open(&c->gate, m->stop);
    return 0;
}

static int handle_log_level(struct worker_request *r, struct error *e)
{
    (void)e;
    set_log_level(r->message->WORKER_LOG_LEVEL_request.level);
    return 0;
}

// ---- the table ---------------------------------------------------------------------------------

static const struct {
    uint16_t type;
    int (*handle)(struct worker_request *r, struct error *e); // an error is the answer
} handlers[] = {
    {MESSAGE_WORKER_RUN, handle_run},           {MESSAGE_WORKER_START, handle_start},
    {MESSAGE_WORKER_LOAD, handle_load},         {MESSAGE_WORKER_DESCRIBE, handle_describe},
    {MESSAGE_WORKER_OPEN, handle_open},         {MESSAGE_WORKER_CLOSE, handle_close},
    {MESSAGE_WORKER_BUFFER, handle_buffer},     {MESSAGE_WORKER_BUFFER_FREE, handle_buffer_free},
    {MESSAGE_WORKER_PROFILE, handle_profile},   {MESSAGE_WORKER_DUMP, handle_dump},
    {MESSAGE_WORKER_NEXT, handle_next},         {MESSAGE_WORKER_MEMORY, handle_memory},
    {MESSAGE_WORKER_BIND, handle_bind},         {MESSAGE_WORKER_MEMORY_FREE, handle_memory_free},
    {MESSAGE_WORKER_INTERNAL, handle_internal}, {MESSAGE_WORKER_LOG_LEVEL, handle_log_level},
};

// RUN comes first in the table, since the search is linear and runs are the frequent request.
void worker_handle(struct worker *w, const struct frame_header *h, struct bytes message,
                   struct worker_context **ret_run)
{
    union message_any m;
    struct worker_request r = {.worker = w, .header = h, .message = &m};
    struct error e;
    size_t i = 0, n = sizeof handlers / sizeof *handlers;
    while (i < n && handlers[i].type != h->type)
        i++;
    if (i == n || h->flags)
        worker_die("frame of type %u, flags %u", h->type, h->flags);
    if (message_decode(message_row(h->type)->request, message, &m, &e) < 0)
        worker_die("%s", e.text);
    if (handlers[i].handle(&r, &e) < 0) {
        if (h->type == MESSAGE_WORKER_START)
            worker_check_threads(&e);
        worker_reply_error(&r, &e);
    }
    *ret_run = r.run;
}
