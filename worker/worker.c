// The worker process: confinement, threads, reading and writing.
//
// All threads are alike. The one that holds `reading` reads requests and handles them at once,
// except for a run: it releases `reading` for another thread, executes the run itself and answers
// it. So a run needs no hand-over between threads.
//
//     thread 1: lock reading -> read RUN a -> unlock -> run a ......... -> answer a -> lock reading
//     thread 2:                  lock reading -> read RUN b -> unlock -> run b ... -> answer b
//
// One that takes a run when no other could read on starts another: runs that wait for their clients
// keep their threads, also while they have no cores.
//
// Answers are written whole, under `writing`, in the order in which they become ready. The lock
// order is `reading` before `writing`; a run holds neither.
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/log.h"
#include "worker/breadcrumbs.h"

#define EXIT_BROKEN 3

void worker_die(const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_error("%s", text);
    _exit(EXIT_BROKEN);
}

// ---- answers -----------------------------------------------------------------------------------

// The end of the socket, in either direction, ends the process, whatever its threads are doing: a
// worker has no state worth saving.
static _Noreturn void on_daemon_gone(void)
{
    _exit(0);
}

// Takes over the frame. The socket blocks, so that a daemon that does not read slows the worker
// down instead of filling its memory. n_answers is raised before the write: it is the release half
// of the ordering that struct worker explains.
void worker_answer(struct worker *w, struct frame_out *f)
{
    struct frame_queue q;
    struct iovec iov[4];
    const int *fds;
    int n, n_fds;
    if (!f)
        worker_die("no memory for an answer");
    frame_queue_init(&q);
    frame_queue_push(&q, f);
    atomic_fetch_add_explicit(&w->n_answers, 1, memory_order_release);
    pthread_mutex_lock(&w->writing);
    while ((n = frame_queue_peek(&q, iov, 4, &fds, &n_fds)) > 0) {
        ssize_t sent = fd_send(w->fd, iov, n, fds, n_fds);
        if (sent < 0)
            on_daemon_gone();
        frame_queue_sent(&q, (size_t)sent);
    }
    pthread_mutex_unlock(&w->writing);
}

// ---- requests ----------------------------------------------------------------------------------

// Until there is something to read. Who waits in recvmsg() on a Unix socket is also woken whenever
// the other end reads.
static void wait_for_input(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        continue;
}

// Reads once, blocking. The atomic load is the acquire half of n_answers: what other threads did
// before their answers is visible to what the daemon asked for afterwards.
static void worker_receive(struct worker *w)
{
    struct frame_reader *r = &w->reader;
    void *space;
    size_t size = frame_reader_space(r, &space);
    wait_for_input(w->fd);
    ssize_t n = fd_receive(w->fd, space, size, r->fds, &r->n_fds, FRAME_READER_FDS);
    if (n <= 0)
        on_daemon_gone();
    atomic_load_explicit(&w->n_answers, memory_order_acquire);
    frame_reader_fill(r, (size_t)n);
}

// Handles requests until one of them is a run, which the caller executes. Needs `reading`. A
// malformed frame is a bug of the daemon, which is trusted, and ends the process.
static struct worker_context *next_run(struct worker *w)
{
    struct worker_context *run = NULL;
    struct error e;
    while (!run) {
        int event = frame_reader_next(&w->reader, &e);
        if (event < 0)
            worker_die("%s", e.text);
        if (event == FRAME_NEED_MORE)
            worker_receive(w);
        else
            worker_handle(w, &w->reader.header, frame_reader_message(&w->reader), &run);
    }
    return run;
}

static void *worker_serve(void *arg);

// They are detached and end with the process.
static int start_thread(struct worker *w, struct error *e)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, worker_serve, w);
    if (r != 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, r, "cannot start a thread");
    pthread_detach(thread);
    return 0;
}

static void *end_at_once(void *unused)
{
    return unused;
}

// The daemon looks for who has all threads, and tries again.
static _Noreturn void end_without_threads(const struct error *why)
{
    log_error("%s; no thread can be started", why->text);
    _exit(WORKER_EXIT_NO_THREADS);
}

// Backends and libraries have words of their own for a thread that they cannot have.
void worker_check_threads(const struct error *why)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, end_at_once, NULL);
    if (r == 0)
        pthread_join(thread, NULL);
    if (r == EAGAIN)
        end_without_threads(why);
}

// The body of every thread. A run that the backend finishes on a thread of its own is answered
// there, and this one reads on at once.
static void *worker_serve(void *arg)
{
    struct worker *w = arg;
    struct error e;
    for (;;) {
        atomic_fetch_add(&w->n_readers, 1);
        pthread_mutex_lock(&w->reading);
        struct worker_context *run = next_run(w);
        pthread_mutex_unlock(&w->reading);
        if (atomic_fetch_sub(&w->n_readers, 1) == 1 && w->n_threads > 1 && start_thread(w, &e) < 0)
            log_warn("%s: what comes is read when a run has ended", e.text);
        worker_run(run);
    }
    return NULL;
}

// The calling thread serves as well, hence n - 1 new ones. That one cannot be had is not asked
// again afterwards: whoever has them all may have let some go meanwhile.
void worker_start_threads(struct worker *w, unsigned n)
{
    struct error e;
    w->n_threads = n;
    for (unsigned i = 1; i < n; i++)
        if (start_thread(w, &e) < 0)
            end_without_threads(&e);
}

// ---- the process -------------------------------------------------------------------------------

// Before Linux 5.9 close_range() does nothing; the daemon's own files are close-on-exec in any
// case.
static void close_all_but(int fd)
{
    // Before Linux 5.9 this does nothing; the daemon's own files close on exec all the same.
    if (fd > 3)
        close_range(3, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
}

#define OOM_SCORE                                                                                  \
    1000 // the most: thousandths of what a control group may have, which may be little

// Where memory runs out the kernel ends a worker, which is replaced, and not the daemon: a worker
// has the daemon's score otherwise, which its service may have lowered. One that is higher stays.
// Before the process is made undumpable, which gives the file to root.
static void worker_offer_itself(void)
{
    char text[16] = "";
    cleanup(fd_close_p) int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0 || strtol(text, NULL, 10) >= OOM_SCORE)
        return;
    int n = snprintf(text, sizeof text, "%d", OOM_SCORE);
    (void)!pwrite(fd, text, (size_t)n, 0);
}

// A worker runs foreign code on untrusted files: it may gain no rights, leave no core dump, and
// must not outlive its daemon.
static int worker_confine(int fd, struct error *e)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    worker_offer_itself();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0 || setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "cannot confine itself");
    prctl(PR_SET_NAME, "rknnd-worker");
    close_all_but(fd);
    // A terminal sends these to the whole process group. The daemon lets jobs finish before it ends
    // its workers.
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    return 0;
}

// The output goes into a pipe that the daemon reads: line by line, and non-blocking, so that a full
// pipe loses lines rather than delaying a run.
static void worker_begin_log(void)
{
    fcntl(STDERR_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK);
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_mark_levels();
}

int worker_main(int fd, const char *module_dir)
{
    struct error e;
    worker_begin_log();
    struct worker *w = calloc(1, sizeof *w);
    if (!w || worker_confine(fd, &e) < 0) {
        log_error("%s", w ? e.text : "no memory");
        free(w);
        return EXIT_BROKEN;
    }
    w->fd = fd;
    w->module_dir = module_dir;
    pthread_mutex_init(&w->reading, NULL);
    pthread_mutex_init(&w->writing, NULL);
    frame_reader_init(&w->reader, 0);
    for (int i = 0; i < WORKER_BUCKETS; i++) {
        list_init(&w->contexts[i]);
        list_init(&w->buffers[i]);
        list_init(&w->memories[i]);
    }
    worker_serve(w);
    return 0;
}
