// The daemon's end of a worker process.
//
//     worker_process_new() --> alive --> killed: by us, or its stream has ended
//        | no process        ^             | the kernel says that it has exited,
//        | can be started    |             v or REAP_MS are over: it hangs in a driver
//        v                   |           on_dead(), once --> worker_process_free()
//     another, which has taken the threads, is ended
//
// A frame that makes no sense kills it: whoever sends one has lost control of itself. The struct
// goes when it is freed by its owner and libuv has closed all its handles (n_handles), in whichever
// order these come.
#include "server/runner/worker_process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "server/net/channel.h"
#include "server/net/transport_socket.h"
#include "server/observe/trace.h"
#include "server/runner/child.h"
#include "server/runner/plain_environment.h"
#include "server/runner/worker_log.h"
#include "server/turns.h"
#include "worker/breadcrumbs.h"

// Bounds an answer's payload: descriptions of models and layers. As much as the loop can copy while
// nobody notices.
#define PAYLOAD_MAX (32u << 20)
// A process that has not exited this long after SIGKILL hangs in a driver.
#define REAP_MS 3000
// Until then, and so often, a start is tried again that lacks what a process that was killed has.
#define START_MS 3000
#define AGAIN_MS 20
#define LIMITS   " (ulimit -u, LimitNPROC=, TasksMax=)"

struct worker_process {
    struct list link; // in runner_counters.processes, until it is killed
    const struct runner_options *options;
    const char *name;
    const struct worker_events *events;
    void *owner;
    struct child process;
    char *args[6], **environment;
    int far_end, log_end;  // the child's, until it is started
    uint64_t start_end_ms; // uv_now() until which that is tried
    pid_t pid;             // also when it has ended; 0: it is not started
    int threads;           // its /proc/self/task, which says how many there are; -1: not known
    uv_timer_t reap;       // and to start
    struct channel channel;
    struct worker_log log;
    bool killed, exited, reported, freed;
    bool hoards;        // and is being ended
    bool answered;      // START: from here on it may be whoever has broken it
    unsigned n_handles; // not yet closed
    struct error why;   // it was killed by us; "" when it was not
    struct breadcrumbs *breadcrumbs;
    // An answer whose payload is being read:
    struct frame_header header;
    uint8_t *answer; // message, then payload
};

// ---- freed -------------------------------------------------------------------------------------

static void worker_free_parts(struct worker_process *w)
{
    if (w->breadcrumbs)
        munmap(w->breadcrumbs, BREADCRUMBS_SIZE);
    fd_close(w->far_end);
    fd_close(w->log_end);
    fd_close(w->threads);
    free(w->answer);
    free(w->environment);
}

// Called at each end; the last one frees.
static void free_if_closed(struct worker_process *w)
{
    if (w->n_handles > 0 || !w->freed)
        return;
    worker_free_parts(w);
    free(w);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct worker_process *w = handle->data;
    w->n_handles--;
    free_if_closed(w);
}

static void on_channel_closed(struct channel *c)
{
    struct worker_process *w = container_of(c, struct worker_process, channel);
    w->n_handles--;
    free_if_closed(w);
}

static void on_log_closed(struct worker_log *l)
{
    struct worker_process *w = container_of(l, struct worker_process, log);
    w->n_handles--;
    free_if_closed(w);
}

// ---- threads -----------------------------------------------------------------------------------

// 0: not known. The kernel says it to whoever has the folder open, also where processes are hidden.
static uint64_t count_threads(const struct worker_process *w)
{
    struct stat st;
    return w->threads >= 0 && fstat(w->threads, &st) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

// What it gives back is enough for its successor and for another one.
static uint64_t most_threads(const struct worker_process *w)
{
    return 2 * w->options->counters->worker_threads;
}

// It has been killed: what it has comes back soon.
static void hoarder_ends(struct worker_process *w)
{
    w->hoards = count_threads(w) > most_threads(w);
    w->options->counters->hoarders += w->hoards;
}

static void hoarder_has_ended(struct worker_process *w)
{
    w->options->counters->hoarders -= w->hoards;
    w->hoards = false;
}

// ---- the end -----------------------------------------------------------------------------------

static void on_reap_late(uv_timer_t *timer);
static void on_never_started(uv_timer_t *timer);

// Kills the process, if it has not exited, and closes the channel. on_process_exit(),
// on_reap_late() or on_never_started() reports it. One that saw its channel close first could still
// end by itself, and its end would say nothing of ours.
static void end_process(struct worker_process *w)
{
    if (w->killed)
        return;
    w->killed = true;
    list_remove(&w->link);
    if (w->pid == 0) {
        uv_timer_start(&w->reap, on_never_started, 0, 0);
    } else if (!w->exited) {
        hoarder_ends(w);
        child_kill(&w->process);
        uv_timer_start(&w->reap, on_reap_late, REAP_MS, 0);
    }
    channel_close(&w->channel, on_channel_closed);
}

// Tells the owner, once. A breadcrumb, if there is one, names the foreign code that was running.
static void report_dead(struct worker_process *w)
{
    char crumb[sizeof w->breadcrumbs->text[0]];
    if (w->reported || w->freed)
        return;
    w->reported = true;
    if (breadcrumbs_last(w->breadcrumbs, crumb, sizeof crumb)) {
        struct error why = w->why;
        error_set(&w->why, why.code, "%s, in %s", why.text, crumb);
    }
    log_warn("model %s: %s (pid %d)", w->name, w->why.text, w->pid);
    trace_add(w->options->trace, TRACE_WORKER_DIED, 0, (uint64_t)w->pid, 0, w->name);
    w->events->on_dead(w->owner, &w->why);
}

// SIGKILL has no effect on a process in uninterruptible sleep. The owner need not wait for it.
static void on_reap_late(uv_timer_t *timer)
{
    struct worker_process *w = container_of(timer, struct worker_process, reap);
    error_set(&w->why, STATUS_DEVICE_UNAVAILABLE,
              "its worker does not end although it was killed; it hangs in a driver");
    hoarder_has_ended(w);
    report_dead(w);
}

static void on_child_closed(struct child *child)
{
    struct worker_process *w = container_of(child, struct worker_process, process);
    w->n_handles--;
    free_if_closed(w);
}

// Threads are lacking: ends the worker that has most, if that is more than one may have. False:
// none has.
static bool end_hoarder(const struct runner_options *o)
{
    struct worker_process *w, *most = NULL;
    uint64_t threads = 0;
    list_for_each (w, &o->counters->processes, link) {
        uint64_t n = count_threads(w);
        if (n > most_threads(w) && n > threads) {
            most = w;
            threads = n;
        }
    }
    if (most)
        worker_process_kill(most,
                            "it had %llu threads, where a model is counted as %llu, and there were "
                            "none for others" LIMITS,
                            (unsigned long long)threads,
                            (unsigned long long)o->counters->worker_threads);
    return most;
}

// There is no process, any more or at all.
static void worker_process_gone(struct worker_process *w)
{
    end_process(w);
    worker_log_close(&w->log, on_log_closed);
    child_close(&w->process, on_child_closed);
    uv_close((uv_handle_t *)&w->reap, on_handle_closed);
    report_dead(w);
}

static void on_never_started(uv_timer_t *timer)
{
    worker_process_gone(container_of(timer, struct worker_process, reap));
}

// If it was killed by us, `why` has the reason already.
static void on_process_exit(struct child *process, int code, int signal)
{
    struct worker_process *w = container_of(process, struct worker_process, process);
    w->exited = true;
    hoarder_has_ended(w);
    w->options->counters->workers--;
    if (!w->why.text[0] && signal)
        error_set(&w->why, STATUS_DEVICE_UNAVAILABLE, "its worker died by signal %d (%s)", signal,
                  strsignal(signal));
    else if (!w->why.text[0] && !w->answered && code == WORKER_EXIT_NO_THREADS)
        error_set(&w->why, end_hoarder(w->options) ? STATUS_MALLOC_FAIL : STATUS_DEVICE_UNAVAILABLE,
                  "its worker could not start a thread" LIMITS);
    else if (!w->why.text[0])
        error_set(&w->why, STATUS_DEVICE_UNAVAILABLE, "its worker ended with exit code %d", code);
    worker_process_gone(w);
}

void worker_process_kill(struct worker_process *w, const char *format, ...)
{
    if (w->killed)
        return;
    char text[sizeof w->why.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(&w->why, STATUS_DEVICE_UNAVAILABLE, "its worker was killed: %s", text);
    end_process(w);
}

void worker_process_free(struct worker_process *w)
{
    if (!w)
        return;
    w->freed = true;
    end_process(w);
}

// ---- frames ------------------------------------------------------------------------------------

// Decodes a whole answer and hands it to the owner. An answer that the owner rejects kills the
// worker.
static void worker_process_deliver(struct worker_process *w, const struct frame_header *h,
                                   struct bytes message, struct bytes payload)
{
    bool failed = h->flags & FRAME_ERROR;
    union message_any m;
    struct error failure, e;
    int r = message_decode(message_fields(h), message, &m, &e);
    if (r == 0 && failed)
        message_error_take(&m.error, &failure);
    if (r == 0)
        r = w->events->on_reply(w->owner, h, failed ? &failure : NULL, &m, payload, &e);
    if (r < 0)
        worker_process_kill(w, "it broke the protocol: %s", e.text);
}

// Checks a frame's header before memory is allocated for its payload: a known type, a reply,
// partial only for runs and dumps, a payload only where the type has one, and expected by the
// owner.
static bool makes_sense(const struct worker_process *w, const struct frame_header *h)
{
    const struct message_row *row = message_row(h->type);
    bool may_have_payload = row && row->reply_payload && !(h->flags & FRAME_ERROR);
    bool may_go_on = h->type == MESSAGE_WORKER_DUMP || h->type == MESSAGE_WORKER_RUN;
    return row && (h->flags & FRAME_REPLY) && (may_go_on || !(h->flags & FRAME_MORE)) &&
           (h->payload_size == 0 || may_have_payload) && w->events->expects(w->owner, h);
}

// Message and payload are collected in one allocation, since the message itself is valid only until
// this returns.
static void on_message(struct channel *c, const struct frame_header *h, struct bytes message)
{
    struct worker_process *w = container_of(c, struct worker_process, channel);
    turns_mark(c->transport->loop, "a worker's answer");
    if (!w->answered)
        w->threads = frame_reader_take_fd(&c->reader);
    w->answered = true;
    c->takes_fds = false;
    if (!makes_sense(w, h)) {
        worker_process_kill(w, "it broke the protocol: frame of type %u, flags %u, id %u", h->type,
                            h->flags, h->id);
        return;
    }
    if (h->payload_size == 0) {
        worker_process_deliver(w, h, message, (struct bytes){0});
        return;
    }
    if (h->payload_size <= PTRDIFF_MAX - FRAME_MESSAGE_MAX)
        w->answer = malloc(message.size + (size_t)h->payload_size);
    if (!w->answer) {
        worker_process_kill(w, "no memory for its answer of %llu bytes",
                            (unsigned long long)h->payload_size);
        return;
    }
    w->header = *h;
    memcpy(w->answer, message.data, message.size);
    struct iovec rest = {w->answer + message.size, (size_t)h->payload_size};
    frame_reader_payload_into(&c->reader, &rest, 1);
}

static void on_payload(struct channel *c)
{
    struct worker_process *w = container_of(c, struct worker_process, channel);
    cleanup(free_p) uint8_t *answer = steal_ptr(w->answer);
    struct bytes message = {answer, w->header.message_size};
    struct bytes payload = {answer + message.size, (size_t)w->header.payload_size};
    worker_process_deliver(w, &w->header, message, payload);
}

// The end of the stream means the end of the process, or causes it; on_process_exit() finds the
// words. What is no frame, or no memory for one, has words of its own.
static void on_lost(struct channel *c, const struct error *why)
{
    struct worker_process *w = container_of(c, struct worker_process, channel);
    log_debug("model %s: %s", w->name, why->text);
    if (why->code == STATUS_DEVICE_UNAVAILABLE)
        end_process(w);
    else
        worker_process_kill(w, "%s%s", why->code == STATUS_FAIL ? "it broke the protocol: " : "",
                            why->text);
}

static const struct channel_ops channel_ops = {
    .on_message = on_message,
    .on_payload = on_payload,
    .on_lost = on_lost,
};

pid_t worker_process_pid(const struct worker_process *w)
{
    return w->pid;
}

void worker_process_send(struct worker_process *w, struct frame_out *f)
{
    channel_send(&w->channel, f);
}

void worker_processes_set_log_level(const struct runner_options *options, enum log_level level)
{
    const rknnd_LogLevel m = {.level = (uint32_t)level};
    struct worker_process *w, *after;
    list_for_each_safe (w, after, &options->counters->processes, link)
        channel_send(&w->channel, message_frame(MESSAGE_WORKER_LOG_LEVEL, 0, 0,
                                                rknnd_LogLevel_fields, &m, NULL, 0, NULL, NULL));
}

// The worker's words about the device are checked: core masks have 32 bits.
int worker_process_take_device(const rknnd_Device *m, struct npu_device_info *ret, struct error *e)
{
    struct npu_device_info d = {.n_cores = m->n_cores,
                                .sram_size = m->sram_size,
                                .dma = m->dma,
                                .clock_hz = m->clock_hz,
                                .timing = (enum npu_timing)m->timing,
                                .slices = m->slices};
    if (m->n_cores == 0 || m->n_cores > 32 || m->timing > NPU_TIMING_PACED)
        return error_set(e, STATUS_FAIL, "a device with %u cores and timing %u", m->n_cores,
                         m->timing);
    message_set_text(d.chip, m->chip);
    message_set_text(d.backend, m->backend);
    message_set_text(d.runtime_version, m->runtime_version);
    message_set_text(d.driver_version, m->driver_version);
    *ret = d;
    return 0;
}

// ---- the start ---------------------------------------------------------------------------------

// Starts this program again, as `rknnd --worker 3`. The child has the log's pipe as stdout and
// stderr, and the socket as fd 3.
static int worker_process_spawn(struct worker_process *w, struct error *e)
{
    char *args[] = {"rknnd", "--worker", "3", "--module-dir", (char *)w->options->module_dir, NULL};
    const struct child_words words = {.program = "/proc/self/exe",
                                      .args = memcpy(w->args, args, sizeof args),
                                      .environment = w->environment,
                                      .fd = w->far_end,
                                      .log_fd = w->log_end,
                                      .exited = on_process_exit};
    turns_mark(w->options->loop, "starting a worker");
    int r = child_start_soon(&w->process, &words, e);
    turns_mark(w->options->loop, "what follows a worker's start");
    if (r < 0)
        return error_prefix(e, "a worker");
    w->far_end = fd_close(w->far_end);
    w->log_end = fd_close(w->log_end);
    w->pid = w->process.pid;
    w->options->counters->workers++;
    worker_log_set_name(&w->log, "worker %d (%s)", w->pid, w->name);
    return 0;
}

static void on_again(uv_timer_t *timer);

// Now, or soon, where one that hoards threads has to end before.
static int spawn_or_wait(struct worker_process *w, struct error *e)
{
    const struct runner_options *o = w->options;
    bool may_wait = uv_now(o->loop) < w->start_end_ms, waits = may_wait && o->counters->hoarders;
    int r = waits ? 0 : worker_process_spawn(w, e);
    if (r == STATUS_MALLOC_FAIL && may_wait && end_hoarder(o)) {
        waits = true;
        r = 0;
    }
    if (waits)
        uv_timer_start(&w->reap, on_again, AGAIN_MS, 0);
    return r;
}

static void on_again(uv_timer_t *timer)
{
    struct worker_process *w = container_of(timer, struct worker_process, reap);
    if (spawn_or_wait(w, &w->why) < 0)
        worker_process_gone(w);
}

// Makes a socket for frames and a pipe for the log; their far ends are for the child. Counts its
// handles in n_handles, so that a failure half-way can be cleaned up.
static int connect_to(struct worker_process *w, struct error *e)
{
    int ends[2];
    struct transport *transport;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "cannot start a worker");
    int r = worker_log_init(&w->log, w->options->loop, &w->log_end, e);
    if (r == 0) {
        w->n_handles++;
        r = transport_socket_new(w->options->loop, ends[0], &transport, e);
    }
    if (r != 0) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        return r;
    }
    channel_init(&w->channel, transport, PAYLOAD_MAX, true, &channel_ops);
    w->n_handles++;
    w->far_end = ends[1];
    return 0;
}

// Memory for the worker's breadcrumbs. Sealed, so that the worker cannot shrink it and crash the
// daemon with SIGBUS when it reads. The daemon's mapping is read-only.
static int make_breadcrumbs(struct breadcrumbs **ret, int *ret_fd, struct error *e)
{
    cleanup(fd_close_p) int fd = fd_memory("a worker's crash breadcrumbs", BREADCRUMBS_SIZE, e);
    if (fd < 0)
        return fd;
    void *breadcrumbs = MAP_FAILED;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        breadcrumbs = mmap(NULL, BREADCRUMBS_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (breadcrumbs == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "a worker's crash breadcrumbs");
    *ret = breadcrumbs;
    *ret_fd = steal_fd(&fd);
    return 0;
}

// The first frame. Texts that do not fit the message are refused, as cutting them would change
// their meaning.
static int make_start(const struct runner_options *o, struct frame_out **ret, struct error *e)
{
    rknnd_WorkerStart m = {0};
    if (strlen(o->plugin_dir) >= sizeof m.plugin_dir)
        return error_set(e, STATUS_PARAM_INVALID, "plugin-dir may have %zu bytes",
                         sizeof m.plugin_dir - 1);
    message_set_text(m.plugin_dir, o->plugin_dir);
    if (strlen(o->backend) >= sizeof m.backend || strlen(o->backend_options) >= sizeof m.options)
        return error_set(e, STATUS_PARAM_INVALID,
                         "backend \"%s:%s\" is too long: the name may have %zu bytes, its options "
                         "%zu",
                         o->backend, o->backend_options, sizeof m.backend - 1,
                         sizeof m.options - 1);
    m.log_level = (uint32_t)log_level_now();
    m.sandbox = o->sandbox;
    m.uid = o->worker_user.uid;
    m.gid = o->worker_user.gid;
    m.groups_count = (pb_size_t)o->worker_user.n_groups;
    memcpy(m.groups, o->worker_user.groups, sizeof m.groups);
    message_set_text(m.backend, o->backend);
    message_set_text(m.options, o->backend_options);
    *ret = message_frame(MESSAGE_WORKER_START, 0, 1, rknnd_WorkerStart_fields, &m, NULL, 0, NULL,
                         NULL);
    return *ret ? 0 : error_no_memory(e, "a message", sizeof m);
}

static struct worker_process *worker_process_allocate(const struct runner_options *options,
                                                      const char *name,
                                                      const struct worker_events *events,
                                                      void *owner)
{
    struct worker_process *w = calloc(1, sizeof *w);
    if (!w || !(w->environment = plain_environment())) {
        free(w);
        return NULL;
    }
    w->far_end = w->log_end = w->threads = -1;
    w->options = options;
    w->name = name;
    w->events = events;
    w->owner = owner;
    return w;
}

// Takes over the frame, whatever the outcome. From the moment that handles exist, only the loop can
// free the struct.
static int worker_process_start(struct worker_process *w, struct frame_out *first, struct error *e)
{
    int r = connect_to(w, e);
    if (r < 0) {
        frame_out_free(first);
        w->freed = true;
        if (w->n_handles > 0)
            worker_log_close(&w->log, on_log_closed);
        else
            free_if_closed(w);
        return r;
    }
    list_append(&w->options->counters->processes, &w->link);
    uv_timer_init(w->options->loop, &w->reap);
    w->reap.data = w;
    child_init(&w->process, w->options->loop);
    w->n_handles += 2;
    w->start_end_ms = uv_now(w->options->loop) + START_MS;
    r = spawn_or_wait(w, e);
    channel_send(&w->channel, first);
    w->freed = r < 0;
    if (r < 0)
        worker_process_gone(w);
    return r;
}

// The frame waits in the socket until the child reads it.
int worker_process_new(const struct runner_options *options, const char *name,
                       const struct worker_events *events, void *owner, struct worker_process **ret,
                       struct error *e)
{
    struct frame_out *first;
    int r = make_start(options, &first, e);
    if (r < 0)
        return r;
    struct worker_process *w = worker_process_allocate(options, name, events, owner);
    if (!w) {
        frame_out_free(first);
        return error_no_memory(e, "a worker", sizeof *w);
    }
    r = make_breadcrumbs(&w->breadcrumbs, &first->fds[0], e);
    if (r < 0) {
        frame_out_free(first);
        worker_free_parts(w);
        free(w);
        return r;
    }
    first->n_fds = 1;
    r = worker_process_start(w, first, e);
    if (r == 0)
        *ret = w;
    return r;
}
