// A worker that says what it likes: the daemon's end of a worker process, and the runner above it,
// against frames. Nothing is started: child_start_soon() of this program keeps the worker's end.
// Input: steps; the first byte says what.
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "protocol/message.h"
#include "server/observe/trace.h"
#include "server/runner/child.h"
#include "server/runner/runner.h"

#define STEPS 64
#define TURNS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// ---- the process that is none -------------------------------------------------------------------

static struct child *workers[64];
static int ends[64];
static unsigned n_workers;

static void on_watch_closed(uv_handle_t *h)
{
    struct child *c = h->data;
    c->closed(c);
}

void child_init(struct child *c, uv_loop_t *loop)
{
    uv_signal_init(loop, &c->watch);
    c->watch.data = c;
}

int child_start_soon(struct child *c, const struct child_words *w, struct error *e)
{
    c->exited = w->exited;
    if (n_workers == 64)
        return error_set(e, STATUS_FAIL, "too many workers");
    c->pid = (pid_t)(1000000 + n_workers);
    workers[n_workers] = c;
    ends[n_workers++] = dup(w->fd);
    return 0;
}

static void end_worker(unsigned i)
{
    struct child *c = workers[i];
    workers[i] = NULL;
    ends[i] = fd_close(ends[i]);
    if (c)
        c->exited(c, 0, 9);
}

void child_kill(struct child *c)
{
    (void)c; // ended from the loop's top: end_killed()
}

void child_close(struct child *c, void (*closed)(struct child *c))
{
    for (unsigned i = 0; i < n_workers; i++)
        if (workers[i] == c) {
            workers[i] = NULL;
            ends[i] = fd_close(ends[i]);
        }
    c->closed = closed;
    uv_close((uv_handle_t *)&c->watch, on_watch_closed);
}

// ---- what the daemon would do -------------------------------------------------------------------

struct rig {
    uv_loop_t loop;
    struct runner_options options;
    struct runner_counters counters;
    struct trace trace;
    struct runner *runner;
    struct runner_context *context;
    bool loaded, opened, busy;
    struct runner_job job;
    struct npu_input input;
};

static void on_loaded(void *owner, const struct error *e)
{
    struct rig *r = owner;
    r->loaded = !e;
}

static void on_opened(void *owner, const struct error *e)
{
    struct rig *r = owner;
    r->opened = !e;
}

static void end_job(struct rig *r)
{
    if (r->busy)
        buffer_unref(r->job.buffer);
    r->busy = false;
}

static void on_done(struct runner_job *job, const struct error *e)
{
    struct rig *r = container_of(job, struct rig, job);
    if (!e && job->n_tensors > 1u << 30)
        abort();
    end_job(r);
}

// What is said to be at the start of the buffer is there.
static void on_part(struct runner_job *job, const rknnd_DumpReply *part)
{
    volatile uint8_t sum = 0;
    for (uint64_t i = 0; i < part->size; i++)
        sum = (uint8_t)(sum + job->buffer->output[i]);
}

static void start_job(struct rig *r, bool dump)
{
    const struct model_info *info = runner_info(r->runner);
    if (info->n_inputs != 1 || info->n_outputs == 0 || info->tensors[0].logical.size > 65536 ||
        buffer_get(runner_buffers(r->runner), info->tensors[0].logical.size, 65536, &r->job.buffer,
                   NULL) < 0)
        return;
    struct buffer *b = r->job.buffer;
    r->input = (struct npu_input){
        .data = b->input, .size = info->tensors[0].logical.size, .type = TENSOR_UINT8};
    r->job = (struct runner_job){.context = r->context,
                                 .buffer = b,
                                 .inputs = &r->input,
                                 .core_mask = 1,
                                 .window = 65536,
                                 .part = dump ? on_part : NULL,
                                 .only = "",
                                 .done = on_done};
    r->busy = true;
    runner_submit(&r->job);
}

static void on_profile(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                       struct bytes layers)
{
    (void)owner, (void)e, (void)reply, (void)layers;
}

static void turn(struct rig *r)
{
    for (int i = 0; i < TURNS; i++)
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

// ---- frames -------------------------------------------------------------------------------------

static void say(struct rig *r, const uint8_t *data, size_t size)
{
    for (unsigned i = 0; i < n_workers; i++)
        if (ends[i] >= 0)
            fd_send(ends[i], &(struct iovec){(void *)data, size}, 1, NULL, 0);
    turn(r);
}

// A frame with a header in order: type, flags, id, then message and payload.
static void say_frame(struct rig *r, const uint8_t *data, size_t size)
{
    uint8_t bytes[24 + 512] = {0};
    if (size < 4)
        return;
    size_t all = size - 4 < 512 ? size - 4 : 512;
    size_t message = data[3] < all ? data[3] : all;
    const struct frame_header h = {.type = data[0],
                                   .flags = data[1],
                                   .id = data[2],
                                   .message_size = (uint32_t)message,
                                   .payload_size = all - message};
    frame_header_write(bytes, &h);
    memcpy(bytes + 24, data + 4, all);
    say(r, bytes, 24 + all);
}

static void act(struct rig *r, uint8_t what)
{
    switch (what & 3) {
    case 0:
        if (r->loaded && !r->context)
            runner_context_new(r->runner, on_opened, r, &r->context, NULL);
        break;
    case 1:
        if (r->busy)
            runner_job_next(&r->job);
        break;
    case 2:
        if (r->opened && !r->busy)
            start_job(r, what & 4);
        else if (r->opened)
            runner_profile(r->context, on_profile, r);
        break;
    default:
        for (unsigned i = 0; i < n_workers; i++)
            if (workers[i])
                end_worker(i);
    }
    turn(r);
}

static void rig_init(struct rig *r)
{
    const struct model_file model = {
        .fd = fd_memory("model", 5000, NULL), .size = 5000, .name = "model"};
    static const struct runner_events events = {.on_loaded = on_loaded};
    log_set_level(LOG_SILENT);
    uv_loop_init(&r->loop);
    r->options = (struct runner_options){.loop = &r->loop,
                                         .backend = "null",
                                         .backend_options = "",
                                         .module_dir = "/nowhere",
                                         .plugin_dir = "",
                                         .load_timeout_ms = 60000,
                                         .job_timeout_ms = 60000,
                                         .counters = &r->counters,
                                         .trace = &r->trace};
    buffer_totals_init(&r->counters.buffers, 256, 64 << 20);
    list_init(&r->counters.queries);
    list_init(&r->counters.processes);
    n_workers = 0;
    if (runner_new(&r->options, &model, &events, r, &r->runner, NULL) < 0)
        abort();
    close(model.fd);
    turn(r);
}

static void rig_done(struct rig *r)
{
    if (r->busy)
        runner_job_cancel(&r->job);
    end_job(r);
    runner_context_free(r->context);
    runner_free(r->runner);
    turn(r);
    while (uv_loop_alive(&r->loop)) {
        for (unsigned i = 0; i < n_workers; i++)
            if (workers[i])
                end_worker(i);
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    if (uv_loop_close(&r->loop) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rig r = {0};
    rig_init(&r);
    for (int i = 0; i < STEPS && size >= 2; i++) {
        size_t n = data[1] < size - 2 ? data[1] : size - 2;
        if (data[0] < 0xc0)
            say_frame(&r, data + 2, n);
        else if (data[0] < 0xe0)
            say(&r, data + 2, n);
        else
            act(&r, data[0]);
        data += 2 + n;
        size -= 2 + n;
    }
    rig_done(&r);
    return 0;
}
