// What a worker writes to its standard output and error, as lines of the daemon's log.
//
//   pipe --read_some()--> line[] --end_line()--> level taken off, made printable --> log
//                                      | more than WORKER_LOG_LINES in a second
//                                      v
//                            not read until the second is over; what came meanwhile is counted
//                            and left out
//
// All of it is on the loop's thread. The text is untrusted.
#include "server/runner/worker_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text/text.h"
#include "protocol/message.h"
#include "server/net/watch.h"

#define SECOND_MS 1000
#define PIPE_MAX  (64 * 1024)

// ---- lines -------------------------------------------------------------------------------------

// The line's level; *text is moved behind what says so. Our own lines begin with a byte of that
// value (log_mark_levels()), those of the vendor's runtime with "E RKNN: " and the like.
static enum log_level take_level(const char **text)
{
    static const char letters[] = "-EWIDT";
    const char *t = *text, *letter;
    if (*t >= LOG_ERROR && *t <= LOG_TRACE) {
        ++*text;
        return (enum log_level) * t;
    }
    letter = *t && strncmp(t + 1, " RKNN: ", 7) == 0 ? strchr(letters + 1, *t) : NULL;
    return letter ? (enum log_level)(letter - letters) : LOG_WARN;
}

// Logs the line that has been collected, if the budget allows; empty lines are dropped.
static void end_line(struct worker_log *l)
{
    const char *text = l->line;
    l->line[l->length] = 0;
    if (l->length > 0 && l->budget == 0) {
        l->n_left_out++;
    } else if (l->length > 0) {
        enum log_level level = take_level(&text);
        l->budget--;
        text_make_printable((char *)text);
        log_at(level, "%s: %s%s", l->name, text, l->cut ? "…" : "");
    }
    l->length = 0;
    l->cut = false;
}

// A NUL ends a line as well. What does not fit the line is cut, and marked with an ellipsis.
static void worker_log_take(struct worker_log *l, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n' || !text[i])
            end_line(l);
        else if (l->length + 1 < sizeof l->line)
            l->line[l->length++] = text[i];
        else
            l->cut = true;
}

// As read(). The pipe does not block, because libuv has made it so.
static ssize_t read_some(struct worker_log *l)
{
    char text[4096];
    ssize_t n = read(l->fd, text, sizeof text);
    if (n > 0)
        worker_log_take(l, text, (size_t)n);
    return n;
}

// Empties the pipe, but reads no more than it can hold: a worker that keeps writing would never let
// this end.
static void read_all(struct worker_log *l)
{
    ssize_t n, all = 0;
    while (all < PIPE_MAX && (n = read_some(l)) > 0)
        all += n;
}

static void tell_left_out(struct worker_log *l)
{
    if (l->n_left_out > 0)
        log_warn("%s says more than %d lines in a second: %llu or more are left out", l->name,
                 WORKER_LOG_LINES, (unsigned long long)l->n_left_out);
    l->n_left_out = 0;
}

// ---- the pipe ----------------------------------------------------------------------------------

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_rested(uv_timer_t *timer);

// When the kernel has no room to watch it, a second later.
static void watch_pipe(struct worker_log *l)
{
    struct error e;
    if (watch_start(&l->poll, UV_READABLE, on_poll, &e) == 0)
        return;
    log_warn("%s: its words come later: %s", l->name, e.text);
    uv_timer_start(&l->rest, on_rested, SECOND_MS, 0);
}

static void begin_second(struct worker_log *l)
{
    l->budget = WORKER_LOG_LINES;
    l->second_ms = uv_now(l->rest.loop);
}

// The pause is over. What has come meanwhile was written too fast and is counted, not logged; then
// a new second begins.
static void on_rested(uv_timer_t *timer)
{
    struct worker_log *l = container_of(timer, struct worker_log, rest);
    read_all(l);
    tell_left_out(l);
    begin_second(l);
    watch_pipe(l);
}

// Reads once per event, so that a chatty worker does not occupy the loop.
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct worker_log *l = container_of(poll, struct worker_log, poll);
    (void)events;
    if (uv_now(poll->loop) - l->second_ms >= SECOND_MS)
        begin_second(l);
    unsigned before = l->budget;
    if (status < 0 || read_some(l) == 0) {
        uv_poll_stop(poll);
    } else if (l->budget == before && l->budget > 0) {
        l->budget--; // bytes without an end are no less to read
    } else if (l->budget == 0) {
        uv_poll_stop(poll);
        uv_timer_start(&l->rest, on_rested, SECOND_MS, 0);
    }
}

// The caller passes *ret_far_end to the worker and closes its own copy of it.
int worker_log_init(struct worker_log *l, uv_loop_t *loop, int *ret_far_end, struct error *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno, "cannot start a worker");
    *l = (struct worker_log){.fd = ends[0], .n_handles = 2};
    int r = uv_poll_init(loop, &l->poll, l->fd);
    if (r < 0) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        return error_set(e, STATUS_FAIL, "cannot watch a worker's log: %s", uv_strerror(r));
    }
    uv_timer_init(loop, &l->rest);
    begin_second(l);
    watch_pipe(l);
    *ret_far_end = ends[1];
    return 0;
}

void worker_log_set_name(struct worker_log *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(l->name, sizeof l->name, format, args);
    va_end(args);
}

// The pipe is closed only when libuv no longer watches it.
static void closed_one(struct worker_log *l)
{
    if (--l->n_handles > 0)
        return;
    l->fd = fd_close(l->fd);
    l->closed(l);
}

static void on_poll_closed(uv_handle_t *handle)
{
    closed_one(container_of((uv_poll_t *)handle, struct worker_log, poll));
}

static void on_timer_closed(uv_handle_t *handle)
{
    closed_one(container_of((uv_timer_t *)handle, struct worker_log, rest));
}

// Called when the worker has exited: what it wrote last often says why.
void worker_log_close(struct worker_log *l, void (*closed)(struct worker_log *l))
{
    read_all(l);
    end_line(l);
    tell_left_out(l);
    l->closed = closed;
    uv_close((uv_handle_t *)&l->poll, on_poll_closed);
    uv_close((uv_handle_t *)&l->rest, on_timer_closed);
}
