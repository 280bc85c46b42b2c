// The progress line of long work on standard error. Threads: any thread counts (atomics only), one
// thread of this file draws ten times a second while a progress is shown, and the thread of an
// upload draws in its callback. `drawer.lock` protects what is drawn and who draws; the counters
// need no lock.
//
//   show_line: thread starts ---- draws while `shown` ---- hide_line: shown = NULL, signal, join
#include "tools/ui/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "rknnd.h"
#include "tools/format/format.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/terminal.h"

#define REDRAW_NS 100000000
#define QUIET_NS  300000000u // shorter waits are not shown
#define MAX_BAR   40
#define MAX_LABEL 24

// One terminal, so one line: process-wide. A progress that starts while another is shown is counted
// but not drawn.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct progress *shown; // NULL: none
    uint64_t drawn_ns;      // 0: nothing stands there
    unsigned turn;          // of the spinner
    atomic_bool hidden;     // until the next count
} drawer = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// ---- the line ----------------------------------------------------------------------------------

static const char *short_label(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// "12.3 MiB of 27.0 MiB  8.10 MiB/s" or "45 of 100  1.2 s".
static int describe_line(const struct progress *p, uint64_t done, uint64_t total, char *text,
                         size_t size)
{
    struct format_buffer has, all, speed;
    double seconds = (double)(clock_ns() - p->start_ns) / 1e9;
    if (!p->bytes)
        return snprintf(text, size, "%llu of %llu  %.1f s", (unsigned long long)done,
                        (unsigned long long)total, seconds);
    return snprintf(text, size, "%s of %s  %s/s", format_bytes(&has, done),
                    format_bytes(&all, total),
                    format_bytes(&speed, (uint64_t)((double)done / (seconds + 1e-9))));
}

// " 45%  12.3 MiB of 27.0 MiB  8.10 MiB/s" behind label and bar, one column short of the edge.
static void draw_bar(const struct progress *p, uint64_t done, uint64_t total)
{
    static const char full[MAX_BAR + 1] = "########################################";
    char right[100], left[MAX_LABEL + 8];
    double part = done < total ? (double)done / (double)total : 1;
    int n = snprintf(right, sizeof right, "%3u%%  ", (unsigned)(100 * part));
    n += describe_line(p, done, total, right + n, sizeof right - (size_t)n);
    n += snprintf(left, sizeof left, "%.*s", MAX_LABEL, short_label(p->label));
    int bar = (int)terminal_width(stderr) - n - 6;
    bar = bar > MAX_BAR ? MAX_BAR : bar;
    fprintf(stderr, "\r%s ", left);
    if (bar >= 8)
        fprintf(stderr, "[%-*.*s] ", bar, (int)(part * bar), full);
    fprintf(stderr, "%s\033[K", right);
}

// Work whose end is unknown, or that goes on after the last byte: "| net.rknn: loading on the
// server  2.3 s".
static void draw_spinner(const struct progress *p, uint64_t done, uint64_t total)
{
    static const char signs[] = "|/-\\";
    double seconds = (double)(clock_ns() - p->start_ns) / 1e9;
    fprintf(stderr, "\r%c %.*s", signs[drawer.turn++ % 4], MAX_LABEL, short_label(p->label));
    if (p->uploads)
        fputs(total ? ": loading on the server" : ": hashing and loading", stderr);
    else if (done)
        fprintf(stderr, ": %llu", (unsigned long long)done);
    fprintf(stderr, "  %.1f s\033[K", seconds);
}

// With the lock held. Short waits are not worth a line: nothing is drawn in the first QUIET_NS.
static void draw_line(void)
{
    struct progress *p = drawer.shown;
    uint64_t now = clock_ns(), done = p->done, total = p->total;
    bool waits = total == 0 || (p->uploads && done == total);
    if (drawer.hidden || (waits && now - (total ? p->end_ns : p->start_ns) < QUIET_NS))
        return;
    drawer.drawn_ns = now;
    interrupt_drawing(true);
    if (waits)
        draw_spinner(p, done, total);
    else
        draw_bar(p, done, total);
    fflush(stderr);
}

// With the lock held.
static void erase_line(void)
{
    if (!drawer.drawn_ns)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    interrupt_drawing(false);
    drawer.drawn_ns = 0;
}

// ---- the thread --------------------------------------------------------------------------------

// The drawing thread. Waits on the monotonic clock, so that a change of the date does not stop it.
static void *draw_again(void *unused)
{
    pthread_mutex_lock(&drawer.lock);
    while (drawer.shown) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_nsec += REDRAW_NS;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        pthread_cond_clockwait(&drawer.changed, &drawer.lock, CLOCK_MONOTONIC, &at);
        if (drawer.shown && clock_ns() - drawer.drawn_ns >= REDRAW_NS)
            draw_line();
    }
    pthread_mutex_unlock(&drawer.lock);
    return unused;
}

// All signals are blocked in the new thread: Ctrl-C is handled by the thread that runs the command.
// With the lock held.
static bool start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&drawer.thread, NULL, draw_again, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r == 0;
}

// A thread that cannot be started only costs the line.
static void show_line(struct progress *p)
{
    if (!terminal_is(stderr))
        return;
    pthread_mutex_lock(&drawer.lock);
    if (!drawer.shown) {
        drawer.shown = p;
        drawer.hidden = false;
        if (!start_thread())
            drawer.shown = NULL; // the work continues without a line
    }
    pthread_mutex_unlock(&drawer.lock);
}

// Joins without the lock, which the thread needs in order to end.
static void hide_line(struct progress *p)
{
    pthread_mutex_lock(&drawer.lock);
    bool shown = drawer.shown == p;
    pthread_t thread = drawer.thread;
    if (shown) {
        drawer.shown = NULL;
        pthread_cond_signal(&drawer.changed);
        erase_line();
    }
    pthread_mutex_unlock(&drawer.lock);
    if (shown)
        pthread_join(thread, NULL);
}

// ---- what is done ------------------------------------------------------------------------------

// The library's callback, on the thread that uploads. It draws itself when a redraw is due: the
// first and last steps show without waiting for the drawing thread.
static void on_upload(void *user, uint64_t done, uint64_t total)
{
    struct progress *p = user;
    progress_count(p, done, total);
    p->end_ns = clock_ns();
    pthread_mutex_lock(&drawer.lock);
    bool due = done == total || clock_ns() - drawer.drawn_ns >= REDRAW_NS;
    if (drawer.shown == p && total && due) {
        drawer.hidden = false;
        drawer.drawn_ns = clock_ns();
        interrupt_drawing(true);
        draw_bar(p, done, total);
        fflush(stderr);
    }
    pthread_mutex_unlock(&drawer.lock);
}

static void start_progress(struct progress *p, const char *label, uint64_t total)
{
    p->label = label;
    p->start_ns = clock_ns();
    p->end_ns = 0;
    p->done = 0;
    p->total = total;
}

// The library's callback is per thread: uploads of other threads are not counted.
void progress_start(struct progress *p, const char *label)
{
    start_progress(p, label, 0);
    p->uploads = p->bytes = true;
    rknnd_set_progress(on_upload, p);
    show_line(p);
}

void progress_start_counting(struct progress *p, const char *label, uint64_t total)
{
    start_progress(p, label, total);
    p->uploads = p->bytes = false;
    show_line(p);
}

void progress_start_bytes(struct progress *p, const char *label)
{
    start_progress(p, label, 0);
    p->uploads = false;
    p->bytes = true;
    show_line(p);
}

void progress_count(struct progress *p, uint64_t done, uint64_t total)
{
    p->total = total;
    p->done = done;
    drawer.hidden = false;
}

void progress_step(struct progress *p)
{
    p->done++;
}

void progress_erase(struct progress *p)
{
    pthread_mutex_lock(&drawer.lock);
    if (drawer.shown == p) {
        erase_line();
        drawer.hidden = true;
    }
    pthread_mutex_unlock(&drawer.lock);
}

void progress_end(struct progress *p)
{
    if (p->uploads)
        rknnd_set_progress(NULL, NULL);
    hide_line(p);
}

uint64_t progress_ns(const struct progress *p)
{
    return p->total ? p->end_ns - p->start_ns : 0;
}
