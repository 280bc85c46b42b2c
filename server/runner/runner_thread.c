// Hosts on threads of the daemon (--isolation=thread).
#include <assert.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/handle/profile_layers.h"
#include "server/runner/runner_kind.h"
#include "server/threads.h"
#include "worker/custom_proxy.h"
#include "worker/dma_sync.h"
#include "worker/dump_tap.h"
#include "worker/loaded_backend.h"

struct thread_host {
    struct host base;
    struct engine engine;
    struct plugins plugins;
    struct threads *threads;
    struct task task; // loads; at the end closes
    int status;       // of loading
    struct error error;
    bool loading, ending, abandoned;
    unsigned n_lost; // threads that hang
};

// The task is what the context is busy with: opening, a run or closing.
struct thread_context {
    struct host_context base;
    struct task task;
    bool lost;
    struct npu_context *npu;
    int status; // of opening or the run
    struct error error;
    struct npu_job job;
    struct access access;
    struct npu_input *inputs; // copies: the caller may cancel and free his
    struct npu_output *outputs;
    struct pause pause;
    struct tap tap;
    struct task part; // of a dump: tells the loop
    struct caller caller;
    struct task call; // tells the loop
    atomic_int left;  // of a run: the submit's return and the backend's done()
};

static struct thread_host *host_of(struct host *h)
{
    return container_of(h, struct thread_host, base);
}

static struct thread_context *context_of(struct host_context *c)
{
    return container_of(c, struct thread_context, base);
}

static struct thread_host *host_of_context(struct thread_context *c)
{
    return host_of(c->base.host);
}

// ---- the end -----------------------------------------------------------------------------------

static void on_base_closed(struct host *base)
{
    struct thread_host *h = host_of(base);
    if (!h->abandoned)
        free(h);
}

static void on_threads_closed(void *owner)
{
    struct thread_host *h = owner;
    host_done(&h->base, on_base_closed);
}

static void work_close(struct task *t)
{
    struct thread_host *h = container_of(t, struct thread_host, task);
    engine_close(&h->engine);
    plugins_done(&h->plugins);
    threads_post(t->threads, t);
}

static void finish_close(struct task *t)
{
    struct thread_host *h = container_of(t, struct thread_host, task);
    threads_free(h->threads, on_threads_closed, h);
}

// Goes on with the end when nothing is under way any more, or nothing that will come back.
static void continue_end(struct thread_host *h)
{
    if (!h->ending || h->abandoned)
        return;
    if (h->n_lost > 0) {
        log_warn("model %s: a thread that hangs keeps its memory until rknnd ends",
                 h->base.model.name);
        h->abandoned = true;
        threads_abandon(h->threads, on_threads_closed, h);
    } else if (!h->loading && list_empty(&h->base.contexts)) {
        h->task.work = work_close;
        h->task.finish = finish_close;
        threads_do(h->threads, &h->task);
    }
}

static void end(struct host *base)
{
    struct thread_host *h = host_of(base);
    h->ending = true;
    continue_end(h);
}

// ---- loading -----------------------------------------------------------------------------------

static int fill_custom(struct host_info *info, const struct npu_model_info *m, struct error *e)
{
    size_t size;
    cleanup(free_p) uint8_t *list = custom_list_encode(m->custom, m->n_custom, &size);
    if (!list)
        return error_no_memory(e, "custom operators", 0);
    struct bytes payload = {list, size};
    return host_info_take_custom(info, &payload, m->n_custom, e);
}

static int fill_info(struct thread_host *h, struct error *e)
{
    const struct npu_model_info *m = h->engine.backend->model_info(h->engine.model);
    struct host_info *info = &h->base.info;
    size_t n;
    cleanup(free_p) const struct tensor_io **tensors = engine_tensors(m, &n);
    info->tensors = tensors ? calloc(n + 1, sizeof *info->tensors) : NULL;
    if (!info->tensors)
        return error_no_memory(e, "a model's inputs and outputs", n * sizeof *info->tensors);
    for (size_t i = 0; i < n; i++)
        info->tensors[i] = *tensors[i];
    info->device = *h->engine.backend->device_info(h->engine.device);
    info->n_inputs = m->n_inputs;
    info->n_outputs = m->n_outputs;
    info->n_rows = m->n_rows ? m->n_rows : 1;
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
    message_set_text(info->estimate_chip, m->estimate_chip ? m->estimate_chip : "");
    return fill_custom(info, m, e);
}

static void work_load(struct task *t)
{
    struct thread_host *h = container_of(t, struct thread_host, task);
    const struct host_options *o = h->base.options;
    h->status = engine_open(&h->engine, o->module_dir, o->backend, o->backend_options, &h->error);
    if (h->status == 0)
        h->status = engine_load(&h->engine, &h->base.model, &h->error);
    threads_post(t->threads, t);
}

static int become_ready(struct thread_host *h, struct error *e)
{
    int r = fill_info(h, e);
    // One more than can run: what a custom operator's callback asks for does not wait for the run.
    if (r == 0 && !h->base.info.device.never_blocks)
        r = threads_grow(h->threads, h->base.info.device.n_cores + 1, e);
    return r;
}

static void finish_load(struct task *t)
{
    struct thread_host *h = container_of(t, struct thread_host, task);
    h->loading = false;
    host_set_deadline(&h->base, HOST_NEVER);
    if (h->ending) {
        continue_end(h);
    } else if (h->base.failed) {
        h->n_lost--; // it came back, too late
    } else {
        if (h->status == 0)
            h->status = become_ready(h, &h->error);
        if (h->status < 0)
            host_has_failed(&h->base, &h->error);
        else
            host_is_ready(&h->base);
    }
}

static const struct host_kind thread_kind;

int host_thread_new(const struct host_options *options, const struct model_file *model,
                    const struct host_events *events, void *owner, struct host **ret,
                    struct error *e)
{
    cleanup(free_p) struct thread_host *h = calloc(1, sizeof *h);
    if (!h)
        return error_no_memory(e, "a host", sizeof *h);
    struct threads *threads;
    int r = threads_new(options->loop, &threads, e);
    if (r < 0)
        return r;
    r = host_init(&h->base, &thread_kind, options, model, events, owner, e);
    if (r < 0) {
        threads_free(threads, NULL, NULL);
        return r;
    }
    plugins_init(&h->plugins, options->plugin_dir, options->module_dir, NULL);
    h->threads = threads;
    h->loading = true;
    h->task.work = work_load;
    h->task.finish = finish_load;
    host_set_deadline(&h->base, uv_now(options->loop) + options->load_timeout_ms);
    threads_do(threads, &h->task);
    *ret = &h->base;
    steal_ptr(h);
    return 0;
}

// ---- contexts ----------------------------------------------------------------------------------

static bool refuses_work(const struct thread_host *h, struct error *e)
{
    if (h->n_lost == 0)
        return false;
    error_set(e, STATUS_DEVICE_UNAVAILABLE,
              "model %s: an earlier job hangs on a thread, which cannot be ended; restart rknnd, "
              "or use --isolation=process",
              h->base.model.name);
    return true;
}

// A task has ended: if its thread was given up, it was too early.
static void found_again(struct thread_context *c)
{
    if (c->lost)
        host_of_context(c)->n_lost--;
    c->lost = false;
}

static void work_open(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    struct thread_host *h = host_of_context(c);
    c->status = h->engine.backend->context_new(h->engine.model, &c->npu, &c->error);
    threads_post(t->threads, t);
}

static void finish_open(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    found_again(c);
    host_context_opened(&c->base, c->status < 0 ? &c->error : NULL);
}

static void finish_part(struct task *t);
static void finish_call(struct task *t);

static int make_tables(struct thread_context *c, struct error *e)
{
    const struct host_info *info = &c->base.host->info;
    if (!c->part.finish)
        pause_init(&c->pause);
    c->part.finish = finish_part;
    c->call.finish = finish_call;
    if (!c->inputs)
        c->inputs = calloc(info->n_inputs + 1, sizeof *c->inputs);
    if (!c->outputs)
        c->outputs = calloc(info->n_outputs + 1, sizeof *c->outputs);
    if (!c->inputs || !c->outputs)
        return error_no_memory(e, "a context", sizeof *c);
    const struct engine *g = &host_of_context(c)->engine;
    return c->caller.model ? 0
                           : caller_init(&c->caller, g->backend->model_info(g->model),
                                         &host_of_context(c)->plugins, e);
}

static void open_context(struct host_context *base)
{
    struct thread_context *c = context_of(base);
    struct thread_host *h = host_of_context(c);
    struct error e;
    if (refuses_work(h, &e) || make_tables(c, &e) < 0) {
        host_context_opened(base, &e);
        return;
    }
    c->task.work = work_open;
    c->task.finish = finish_open;
    threads_do(h->threads, &c->task);
}

static void work_close_context(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    host_of_context(c)->engine.backend->context_free(c->npu);
    caller_done(&c->caller);
    threads_post(t->threads, t);
}

static void finish_close_context(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    struct thread_host *h = host_of_context(c);
    caller_done(&c->caller);
    host_context_done(&c->base);
    if (c->part.finish)
        pause_done(&c->pause);
    free(c->inputs);
    free(c->outputs);
    free(c);
    continue_end(h);
}

static void close_context(struct host_context *base)
{
    struct thread_context *c = context_of(base);
    if (!c->npu) {
        finish_close_context(&c->task);
        return;
    }
    c->task.work = work_close_context;
    c->task.finish = finish_close_context;
    threads_do(host_of_context(c)->threads, &c->task);
}

// ---- runs --------------------------------------------------------------------------------------

static void on_job_done(struct npu_job *job, int status)
{
    struct thread_context *c = job->owner;
    struct error e;
    if (access_end(&c->access, job, &e) < 0 && status == 0) {
        status = e.code;
        job->error = e;
    }
    c->status = status;
    if (status < 0)
        c->error = job->error;
    if (atomic_fetch_sub(&c->left, 1) == 1)
        threads_post(host_of_context(c)->threads, &c->task);
}

// True: the run has ended. Else on_job_done() will post the task.
static bool submit(struct thread_context *c)
{
    const struct npu_backend *backend = host_of_context(c)->engine.backend;
    struct error e;
    atomic_store(&c->left, 2);
    int r = access_begin(&c->access, &c->job, &e);
    if (r == 0)
        r = backend->context_submit(c->npu, &c->job, &e);
    if (r == 0)
        return atomic_fetch_sub(&c->left, 1) == 1;
    access_end(&c->access, &c->job, NULL);
    c->status = r;
    c->error = e;
    return true;
}

static void work_run(struct task *t)
{
    if (submit(container_of(t, struct thread_context, task)))
        threads_post(t->threads, t);
}

static void end_run(struct thread_context *c)
{
    found_again(c);
    if (c->base.job) {
        c->base.job->run_us = c->job.run_us;
        c->base.job->estimate_ns = c->job.estimate_ns;
        c->base.job->n_tensors = c->tap.n_tensors;
    }
    host_context_ran(&c->base, c->status < 0 ? &c->error : NULL);
}

static void finish_run(struct task *t)
{
    end_run(container_of(t, struct thread_context, task));
}

static void post_part(struct tap *t)
{
    struct thread_context *c = container_of(t, struct thread_context, tap);
    threads_post(host_of_context(c)->threads, &c->part);
}

static void finish_part(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, part);
    host_context_dumped(&c->base, &c->tap.part);
}

static void post_call(struct caller *caller)
{
    struct thread_context *c = container_of(caller, struct thread_context, caller);
    threads_post(host_of_context(c)->threads, &c->call);
}

static void finish_call(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, call);
    host_context_called(&c->base, c->caller.node);
}

static void next(struct host_context *base, bool stop)
{
    pause_end(&context_of(base)->pause, stop);
}

static void prepare_job(struct thread_context *c)
{
    const struct host_info *info = &c->base.host->info;
    const struct host_job *job = c->base.job;
    const struct tensor_io *outputs = host_info_row(info, job->row) + info->n_inputs;
    uint8_t *at = job->part ? NULL : job->buffer->output;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        const struct bound *place = binding_find(job->binding, info->n_inputs + i);
        uint32_t size = outputs[i].logical.size;
        if (place && !job->part) {
            c->outputs[i] = binding_output(place);
            continue;
        }
        c->outputs[i] = (struct npu_output){.data = at, .size = size};
        at = at ? at + size : NULL;
    }
    memcpy(c->inputs, job->inputs, info->n_inputs * sizeof *c->inputs);
    c->job = (struct npu_job){.inputs = c->inputs,
                              .outputs = c->outputs,
                              .row = job->row,
                              .core_mask = job->core_mask,
                              .divide_batch = job->divide_batch,
                              .stop = &c->pause.stopped,
                              .collect_perf = job->collect_perf,
                              .done = on_job_done,
                              .owner = c};
    c->access = (struct access){.n_inputs = info->n_inputs, .n_outputs = info->n_outputs};
    pause_start(&c->pause);
    if (job->part) {
        tap_start(&c->tap, job->only, job->replace, job->buffer->output, job->window, &c->pause,
                  post_part);
        c->job.tap = &c->tap.npu;
    }
    uint8_t *memory = job->buffer->output;
    if (caller_start(&c->caller, &job->custom, memory + job->custom_inputs,
                     memory + job->custom_outputs, &c->pause, post_call))
        c->job.custom = &c->caller.npu;
}

static void run(struct host_context *base)
{
    struct thread_context *c = context_of(base);
    struct thread_host *h = host_of_context(c);
    struct error e;
    if (refuses_work(h, &e) ||
        (base->job->part && tap_check(&base->host->info.device, base->job->replace, &e) < 0)) {
        host_context_ran(base, &e);
        return;
    }
    prepare_job(c);
    c->task.work = work_run;
    c->task.finish = finish_run;
    if (!base->host->info.device.never_blocks || access_waits(&c->access, &c->job))
        threads_do(h->threads, &c->task);
    else if (submit(c))
        end_run(c);
}

static void profile(struct host_context *base)
{
    struct thread_context *c = context_of(base);
    rknnd_ProfileReply reply = {.run_us = c->job.run_us};
    size_t n, size;
    const struct npu_layer *layers = host_of_context(c)->engine.backend->context_layers(c->npu, &n);
    cleanup(free_p) uint8_t *list = layer_list_encode(layers, n, &size);
    struct error e;
    if (!list) {
        error_no_memory(&e, "a profile", n * sizeof *layers);
        host_context_profiled(base, &e, NULL, (struct bytes){0});
        return;
    }
    reply.n_layers = (uint32_t)n;
    host_context_profiled(base, NULL, &reply, (struct bytes){list, size});
}

// ---- deadlines ---------------------------------------------------------------------------------

static void context_overdue(struct thread_context *c)
{
    struct thread_host *h = host_of_context(c);
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "model %s: %s took too long", h->base.model.name,
              c->base.state == CONTEXT_OPEN ? "the job" : "opening a context");
    if (threads_take_back(h->threads, &c->task)) {
        c->status = e.code;
        c->error = e;
        c->task.finish(&c->task);
        return;
    }
    log_error("%s, and its thread hangs", e.text);
    c->lost = true;
    h->n_lost++;
    host_context_give_up(&c->base, &e);
    continue_end(h);
}

static void overdue(struct host *base, struct host_context *c)
{
    struct thread_host *h = host_of(base);
    struct error e;
    if (c) {
        context_overdue(context_of(c));
        return;
    }
    error_set(&e, STATUS_TIMEOUT, "model %s: loading took longer than %u ms", base->model.name,
              base->options->load_timeout_ms);
    h->n_lost++;
    if (h->ending)
        continue_end(h);
    else
        host_has_failed(base, &e);
}

static const struct host_kind thread_kind = {
    .context_size = sizeof(struct thread_context),
    .end = end,
    .open = open_context,
    .run = run,
    .next = next,
    .profile = profile,
    .close = close_context,
    .overdue = overdue,
};
