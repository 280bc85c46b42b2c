// Runners on threads of the daemon (--isolation=thread).
//
// Work that may block is a task (threads.h): work_*() runs on a thread, finish_*() on the loop when
// it is done. A context has one task, since it does one thing at a time.
//
//   loop                           thread
//   thread_run() --threads_do()--> work_run() --submit--> backend
//        ^                                                  | done(), on any thread
//   finish_run() <----------------threads_post()------------+
//
// A thread cannot be killed. One that is past its deadline is counted in n_lost: its job fails, the
// runner takes no further work, and when the runner ends with such a thread the memory it may still
// use is not freed.
#include <assert.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/runner/runner_kind.h"
#include "server/threads.h"
#include "worker/custom_proxy.h"
#include "worker/dma_sync.h"
#include "worker/dump_tap.h"
#include "worker/layer_message.h"
#include "worker/loaded_backend.h"

struct thread_runner {
    struct runner base;
    struct loaded_backend loaded;
    struct plugins plugins;
    char plugin_dir[4096]; // when it was made: the option may change
    struct threads *threads;
    struct task task; // loads; at the end closes
    int status;       // of loading
    struct error error;
    bool loading, ending, abandoned;
    unsigned n_lost;      // threads that hang
    unsigned n_gated;     // runs that wait for their clients
    struct list memories; // struct memory_user: dma-bufs of which the device may keep something
};

// The task is what the context is busy with: opening, a run or closing.
struct thread_context {
    struct runner_context base;
    struct task task;
    bool lost;
    struct npu_context *npu;
    int status; // of opening or the run
    struct error error;
    struct npu_job job;
    struct dma_sync sync;
    struct npu_input *inputs; // copies: the caller may cancel and free its own
    struct npu_output *outputs;
    struct gate gate;
    bool gated; // the run waits there
    struct dump_tap tap;
    struct task part; // of a dump: tells the loop
    struct custom_proxy proxy;
    struct task call; // tells the loop
    struct run_slices slices;
    struct task yield; // tells the loop
    atomic_int left;   // of a run: the submit's return and the backend's done()
    uint32_t samples;  // of a run; 0: 1
};

static struct thread_runner *runner_of(struct runner *runner)
{
    return container_of(runner, struct thread_runner, base);
}

static struct thread_context *context_of(struct runner_context *c)
{
    return container_of(c, struct thread_context, base);
}

static struct thread_runner *runner_of_context(struct thread_context *c)
{
    return runner_of(c->base.runner);
}

// ---- memory ------------------------------------------------------------------------------------

static void memory_user_free(struct memory_user *u)
{
    list_remove(&u->in_memory);
    list_remove(&u->in_owner);
    free(u);
}

static void on_memory_gone(struct memory_user *u)
{
    const struct thread_runner *runner = u->owner;
    runner->loaded.backend->buffer_gone(runner->loaded.device, &u->memory->buffer);
    memory_user_free(u);
}

// The device goes, and with it what it has kept.
static void forget_memories(struct thread_runner *runner)
{
    struct memory_user *u;
    while ((u = list_first(&runner->memories, struct memory_user, in_owner)))
        memory_user_free(u);
}

// The backend hears when a dma-buf goes that a job has had.
static int note_memory(struct thread_runner *runner, struct memory *m, struct error *e)
{
    struct memory_user *u;
    if (!m || !m->dmabuf || !runner->loaded.backend->buffer_gone)
        return 0;
    list_for_each (u, &m->users, in_memory)
        if (u->owner == runner)
            return 0;
    u = malloc(sizeof *u);
    if (!u)
        return error_no_memory(e, "a memory's user", sizeof *u);
    *u = (struct memory_user){.memory = m, .owner = runner, .gone = on_memory_gone};
    list_append(&m->users, &u->in_memory);
    list_append(&runner->memories, &u->in_owner);
    return 0;
}

// On the loop, before the job is given to a thread.
static int note_memories(struct thread_runner *runner, const struct binding *b, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; b && i < b->n_inputs + b->n_outputs && r == 0; i++)
        r = note_memory(runner, b->tensors[i].memory, e);
    return r;
}

// ---- the end -----------------------------------------------------------------------------------

// The last step. An abandoned runner stays allocated, for the thread that hangs.
static void on_base_closed(struct runner *base)
{
    struct thread_runner *runner = runner_of(base);
    if (!runner->abandoned)
        free(runner);
}

static void on_threads_closed(void *owner)
{
    struct thread_runner *runner = owner;
    runner_done(&runner->base, on_base_closed);
}

// On the thread, because closing a device may block.
static void work_close(struct task *t)
{
    struct thread_runner *runner = container_of(t, struct thread_runner, task);
    loaded_backend_close(&runner->loaded);
    plugins_done(&runner->plugins);
    threads_post(t->threads, t);
}

static void finish_close(struct task *t)
{
    struct thread_runner *runner = container_of(t, struct thread_runner, task);
    threads_free(runner->threads, on_threads_closed, runner);
}

// Takes the next step of the end when nothing is under way any more, or nothing that will come
// back. Called whenever something has finished.
static void continue_end(struct thread_runner *runner)
{
    if (!runner->ending || runner->abandoned)
        return;
    if (runner->n_lost > 0) {
        log_warn("model %s: a thread that hangs keeps its memory until rknnd ends",
                 runner->base.model.name);
        forget_memories(runner);
        runner->abandoned = true;
        threads_abandon(runner->threads, on_threads_closed, runner);
    } else if (!runner->loading && list_empty(&runner->base.contexts)) {
        forget_memories(runner);
        runner->task.work = work_close;
        runner->task.finish = finish_close;
        threads_do(runner->threads, &runner->task);
    }
}

static void thread_end(struct runner *base)
{
    struct thread_runner *runner = runner_of(base);
    runner->ending = true;
    continue_end(runner);
}

// ---- loading -----------------------------------------------------------------------------------

// Encodes and decodes the list, so that the info has the same form as one from a worker process.
static int fill_custom(struct model_info *info, const struct npu_model_info *m, struct error *e)
{
    size_t size;
    cleanup(free_p) uint8_t *list = custom_list_encode(m->custom, m->n_custom, &size);
    if (!list)
        return error_no_memory(e, "custom operators", 0);
    struct bytes payload = {list, size};
    return model_info_take_custom(info, &payload, m->n_custom, e);
}

// Copies what the backend says, since the rest of the daemon reads it without asking the backend.
static int fill_info(struct thread_runner *runner, struct error *e)
{
    const struct npu_model_info *m = runner->loaded.backend->model_info(runner->loaded.model);
    struct model_info *info = &runner->base.info;
    rknnd_ContextInfo message;
    size_t n;
    cleanup(free_p) const struct tensor_io **tensors = loaded_backend_tensors(m, &n);
    info->tensors = tensors ? calloc(n + 1, sizeof *info->tensors) : NULL;
    if (!info->tensors)
        return error_no_memory(e, "a model's inputs and outputs", n * sizeof *info->tensors);
    for (size_t i = 0; i < n; i++)
        info->tensors[i] = *tensors[i];
    info->device = *runner->loaded.backend->device_info(runner->loaded.device);
    loaded_backend_model_message(m, &message);
    model_info_take_message(info, &message);
    return fill_custom(info, m, e);
}

// On the thread: opens module and device, loads the model.
static void work_load(struct task *t)
{
    struct thread_runner *runner = container_of(t, struct thread_runner, task);
    const struct runner_options *o = runner->base.options;
    runner->status = loaded_backend_open(&runner->loaded, o->module_dir, o->backend,
                                         o->backend_options, &runner->error);
    if (runner->status == 0)
        runner->status = loaded_backend_load(&runner->loaded, &runner->base.model, &runner->error);
    threads_post(t->threads, t);
}

static int become_ready(struct thread_runner *runner, struct error *e)
{
    int r = fill_info(runner, e);
    // One more than can run: what a custom operator's callback asks for does not wait for the run.
    if (r == 0 && !runner->base.info.device.never_blocks)
        r = threads_grow(runner->threads, runner->base.info.device.n_cores + 1, e);
    return r;
}

// On the loop. Meanwhile the runner may have been freed (`ending`) or have failed for taking too
// long.
static void finish_load(struct task *t)
{
    struct thread_runner *runner = container_of(t, struct thread_runner, task);
    runner->loading = false;
    runner_set_deadline(&runner->base, RUNNER_NEVER);
    if (runner->ending) {
        continue_end(runner);
    } else if (runner->base.failed) {
        runner->n_lost--; // it came back, too late
    } else {
        if (runner->status == 0)
            runner->status = become_ready(runner, &runner->error);
        if (runner->status < 0)
            runner_has_failed(&runner->base, &runner->error);
        else
            runner_is_ready(&runner->base);
    }
}

static const struct runner_kind thread_kind;

// Starts with one thread, which loads; finish_load() adds those that runs need.
int runner_thread_new(const struct runner_options *options, const struct model_file *model,
                      const struct runner_events *events, void *owner, struct runner **ret,
                      struct error *e)
{
    cleanup(free_p) struct thread_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return error_no_memory(e, "a runner", sizeof *runner);
    struct threads *threads;
    int r = threads_new(options->loop, &threads, e);
    if (r < 0)
        return r;
    r = runner_init(&runner->base, &thread_kind, options, model, events, owner, e);
    if (r < 0) {
        threads_free(threads, NULL, NULL);
        return r;
    }
    snprintf(runner->plugin_dir, sizeof runner->plugin_dir, "%s", options->plugin_dir);
    plugins_init(&runner->plugins, runner->plugin_dir, options->module_dir, NULL);
    runner->threads = threads;
    list_init(&runner->memories);
    runner->loading = true;
    runner->task.work = work_load;
    runner->task.finish = finish_load;
    runner_set_deadline(&runner->base, uv_now(options->loop) + options->load_timeout_ms);
    threads_do(threads, &runner->task);
    *ret = &runner->base;
    steal_ptr(runner);
    return 0;
}

// ---- contexts ----------------------------------------------------------------------------------

// With a lost thread the backend's state is unknown, so nothing else is given to it.
static bool refuses_work(const struct thread_runner *runner, struct error *e)
{
    if (runner->n_lost == 0)
        return false;
    error_set(e, STATUS_DEVICE_UNAVAILABLE,
              "model %s: an earlier job hangs on a thread, which cannot be ended; restart rknnd, "
              "or use --isolation=process",
              runner->base.model.name);
    return true;
}

// A task has ended after all: a thread that was counted as lost has come back.
static void found_again(struct thread_context *c)
{
    if (c->lost)
        runner_of_context(c)->n_lost--;
    c->lost = false;
}

static void work_open(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    struct thread_runner *runner = runner_of_context(c);
    c->status = runner->loaded.backend->context_new(runner->loaded.model, &c->npu, &c->error);
    threads_post(t->threads, t);
}

static void finish_open(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    found_again(c);
    runner_context_opened(&c->base, c->status < 0 ? &c->error : NULL);
}

static void finish_part(struct task *t);
static void finish_call(struct task *t);
static void finish_yield(struct task *t);

// What a context needs besides the backend's own. A context may be opened again after a failure, so
// each part is made only if it is missing.
static int make_tables(struct thread_context *c, struct error *e)
{
    const struct model_info *info = &c->base.runner->info;
    if (!c->part.finish)
        gate_init(&c->gate);
    c->part.finish = finish_part;
    c->call.finish = finish_call;
    c->yield.finish = finish_yield;
    if (!c->inputs)
        c->inputs = calloc(info->n_inputs + 1, sizeof *c->inputs);
    if (!c->outputs)
        c->outputs = calloc(info->n_outputs + 1, sizeof *c->outputs);
    if (!c->inputs || !c->outputs)
        return error_no_memory(e, "a context", sizeof *c);
    const struct loaded_backend *loaded = &runner_of_context(c)->loaded;
    return c->proxy.model ? 0
                          : custom_proxy_init(&c->proxy, loaded->backend->model_info(loaded->model),
                                              &runner_of_context(c)->plugins, e);
}

static void thread_open(struct runner_context *base)
{
    struct thread_context *c = context_of(base);
    struct thread_runner *runner = runner_of_context(c);
    struct error e;
    if (refuses_work(runner, &e) || make_tables(c, &e) < 0) {
        runner_context_opened(base, &e);
        return;
    }
    c->task.work = work_open;
    c->task.finish = finish_open;
    threads_do(runner->threads, &c->task);
}

// On the thread: the backend and plugins may block or run foreign code.
static void work_close_context(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    runner_of_context(c)->loaded.backend->context_free(c->npu);
    custom_proxy_done(&c->proxy);
    threads_post(t->threads, t);
}

// On the loop, also called directly for a context that the backend never knew.
static void finish_close_context(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, task);
    struct thread_runner *runner = runner_of_context(c);
    custom_proxy_done(&c->proxy);
    runner_context_done(&c->base);
    if (c->part.finish)
        gate_done(&c->gate);
    free(c->inputs);
    free(c->outputs);
    free(c);
    continue_end(runner);
}

static void thread_close(struct runner_context *base)
{
    struct thread_context *c = context_of(base);
    if (!c->npu) {
        finish_close_context(&c->task);
        return;
    }
    c->task.work = work_close_context;
    c->task.finish = finish_close_context;
    threads_do(runner_of_context(c)->threads, &c->task);
}

// ---- runs --------------------------------------------------------------------------------------

// From the backend, on any thread. `left` counts this call and submit()'s return; whoever comes
// second ends the run, as before that the backend may still touch the context.
static void on_job_done(struct npu_job *job, int status)
{
    struct thread_context *c = job->owner;
    struct error e;
    if (dma_sync_end(&c->sync, job, &e) < 0 && status == 0) {
        status = e.code;
        job->error = e;
    }
    c->status = status;
    if (status < 0)
        c->error = job->error;
    if (atomic_fetch_sub(&c->left, 1) == 1)
        threads_post(runner_of_context(c)->threads, &c->task);
}

// Waits for all runs, which is why devices that are used on the loop have none of that.
static void thread_run_samples(struct thread_context *c)
{
    struct error e, after;
    int r = dma_sync_begin(&c->sync, &c->job, &e);
    if (r == 0)
        r = loaded_backend_run_samples(&runner_of_context(c)->loaded, c->npu, &c->job, c->inputs,
                                       c->outputs, c->samples, &e);
    if (dma_sync_end(&c->sync, &c->job, &after) < 0 && r == 0) {
        r = after.code;
        e = after;
    }
    c->status = r;
    c->error = e;
}

// Gives the job to the backend. True: the run has ended already. Else on_job_done() will post the
// task.
static bool thread_submit(struct thread_context *c)
{
    const struct npu_backend *backend = runner_of_context(c)->loaded.backend;
    struct error e;
    if (c->samples > 1) {
        thread_run_samples(c);
        return true;
    }
    atomic_store(&c->left, 2);
    int r = dma_sync_begin(&c->sync, &c->job, &e);
    if (r == 0)
        r = backend->context_submit(c->npu, &c->job, &e);
    if (r == 0)
        return atomic_fetch_sub(&c->left, 1) == 1;
    dma_sync_end(&c->sync, &c->job, NULL);
    c->status = r;
    c->error = e;
    return true;
}

static void work_run(struct task *t)
{
    if (thread_submit(container_of(t, struct thread_context, task)))
        threads_post(t->threads, t);
}

// On the loop. The job may have been cancelled meanwhile; then the result goes to nobody.
static void end_run(struct thread_context *c)
{
    found_again(c);
    if (c->base.job) {
        c->base.job->run_us = c->job.run_us;
        c->base.job->estimate_ns = c->job.estimate_ns;
        c->base.job->n_tensors = c->tap.n_tensors;
    }
    runner_context_ran(&c->base, c->status < 0 ? &c->error : NULL);
}

static void finish_run(struct task *t)
{
    end_run(container_of(t, struct thread_context, task));
}

// On the run's thread, which then waits at the gate; finish_part() follows on the loop.
static void post_part(struct dump_tap *t)
{
    struct thread_context *c = container_of(t, struct thread_context, tap);
    threads_post(runner_of_context(c)->threads, &c->part);
}

// Others may have its cores while it waits, but not its thread. Without another one they wait, too.
static void note_gated(struct thread_context *c)
{
    struct thread_runner *runner = runner_of_context(c);
    struct error e;
    c->gated = true;
    runner->n_gated++;
    unsigned n = runner->base.info.device.n_cores + 1 + runner->n_gated;
    if (threads_grow(runner->threads, n < THREADS_MAX ? n : THREADS_MAX, &e) < 0)
        log_warn("model %s: %s", runner->base.model.name, e.text);
}

static void finish_part(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, part);
    note_gated(c);
    runner_context_dumped(&c->base, &c->tap.part);
}

static void post_call(struct custom_proxy *proxy)
{
    struct thread_context *c = container_of(proxy, struct thread_context, proxy);
    threads_post(runner_of_context(c)->threads, &c->call);
}

static void finish_call(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, call);
    note_gated(c);
    runner_context_called(&c->base, c->proxy.node);
}

static void post_yielded(struct run_slices *s)
{
    struct thread_context *c = container_of(s, struct thread_context, slices);
    threads_post(runner_of_context(c)->threads, &c->yield);
}

static void finish_yield(struct task *t)
{
    struct thread_context *c = container_of(t, struct thread_context, yield);
    note_gated(c);
    runner_context_yielded(&c->base);
}

static void thread_yield(struct runner_context *base)
{
    run_slices_ask(&context_of(base)->slices);
}

static void thread_next(struct runner_context *base, bool stop)
{
    struct thread_context *c = context_of(base);
    runner_of_context(c)->n_gated -= c->gated;
    c->gated = false;
    gate_open(&c->gate, stop);
}

// Fills the npu_job. Outputs are packed in the job's buffer unless they are bound; a dump has none,
// as its window takes their place.
static void prepare_job(struct thread_context *c)
{
    const struct model_info *info = &c->base.runner->info;
    const struct runner_job *job = c->base.job;
    const struct tensor_io *outputs = model_info_shape_set(info, job->shape_set) + info->n_inputs;
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
                              .shape_set = job->shape_set,
                              .core_mask = job->core_mask,
                              .divide_batch = job->divide_batch,
                              .stop = &c->gate.stopped,
                              .collect_perf = job->collect_perf,
                              .done = on_job_done,
                              .owner = c};
    c->samples = job->part ? 0 : job->samples;
    c->sync = (struct dma_sync){.n_inputs = info->n_inputs, .n_outputs = info->n_outputs};
    gate_start(&c->gate);
    if (job->part) {
        dump_tap_start(&c->tap, job->only, job->replace, job->buffer->output, job->window, &c->gate,
                       post_part);
        c->job.tap = &c->tap.npu;
    }
    uint8_t *memory = job->buffer->output;
    if (custom_proxy_start(&c->proxy, &job->custom, memory + job->custom_inputs,
                           memory + job->custom_outputs, &c->gate, post_call))
        c->job.custom = &c->proxy.npu;
    run_slices_start(&c->slices, job->slice_us, &c->gate, post_yielded);
    if (job->slice_us && !job->part)
        c->job.slices = &c->slices.npu;
}

// A device that never blocks is used on the loop itself, which saves two thread switches, unless a
// dma-buf has to be synchronised, which may wait for other devices.
static void thread_run(struct runner_context *base)
{
    struct thread_context *c = context_of(base);
    struct thread_runner *runner = runner_of_context(c);
    struct error e;
    if (refuses_work(runner, &e) ||
        (base->job->part &&
         dump_tap_check(&base->runner->info.device, base->job->replace, &e) < 0) ||
        note_memories(runner, base->job->binding, &e) < 0) {
        runner_context_ran(base, &e);
        return;
    }
    prepare_job(c);
    c->task.work = work_run;
    c->task.finish = finish_run;
    if (!base->runner->info.device.never_blocks || dma_sync_waits(&c->sync, &c->job))
        threads_do(runner->threads, &c->task);
    else if (thread_submit(c))
        end_run(c);
}

// The context is idle, so its layers may be read on the loop.
static void thread_profile(struct runner_context *base)
{
    struct thread_context *c = context_of(base);
    rknnd_ProfileReply reply = {.run_us = c->job.run_us};
    size_t n, size;
    const struct npu_layer *layers =
        runner_of_context(c)->loaded.backend->context_layers(c->npu, &n);
    cleanup(free_p) uint8_t *list = layer_list_encode(layers, n, &size);
    struct error e;
    if (!list) {
        error_no_memory(&e, "a profile", n * sizeof *layers);
        runner_context_profiled(base, &e, NULL, (struct bytes){0});
        return;
    }
    reply.n_layers = (uint32_t)n;
    runner_context_profiled(base, NULL, &reply, (struct bytes){list, size});
}

// ---- deadlines ---------------------------------------------------------------------------------

// A task that no thread has begun is taken back and fails. One that runs cannot be stopped: its
// thread counts as lost, and whoever waits is told now.
static void context_overdue(struct thread_context *c)
{
    struct thread_runner *runner = runner_of_context(c);
    struct error e;
    error_set(&e, STATUS_TIMEOUT, "model %s: %s took too long", runner->base.model.name,
              c->base.state == CONTEXT_OPEN ? "the job" : "opening a context");
    if (threads_take_back(runner->threads, &c->task)) {
        c->status = e.code;
        c->error = e;
        c->task.finish(&c->task);
        return;
    }
    log_error("%s, and its thread hangs", e.text);
    c->lost = true;
    runner->n_lost++;
    runner_context_give_up(&c->base, &e);
    continue_end(runner);
}

// c NULL: loading took too long. Its thread counts as lost until finish_load() says otherwise.
static void thread_overdue(struct runner *base, struct runner_context *c)
{
    struct thread_runner *runner = runner_of(base);
    struct error e;
    if (c) {
        context_overdue(context_of(c));
        return;
    }
    error_set(&e, STATUS_TIMEOUT, "model %s: loading took longer than %u ms", base->model.name,
              base->options->load_timeout_ms);
    runner->n_lost++;
    if (runner->ending)
        continue_end(runner);
    else
        runner_has_failed(base, &e);
}

static const struct runner_kind thread_kind = {
    .context_size = sizeof(struct thread_context),
    .end = thread_end,
    .open = thread_open,
    .run = thread_run,
    .next = thread_next,
    .yield = thread_yield,
    .profile = thread_profile,
    .close = thread_close,
    .overdue = thread_overdue,
};
