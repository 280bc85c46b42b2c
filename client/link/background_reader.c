// A thread of a context that reads its connection while runs are under way that no thread of the
// program waits for: custom operators have to be computed for them. One per context that has such
// operators and runs asynchronously; owned by the context's callbacks (callbacks.c).
//
//     loop: lock the context, attend the connection, unlock; poll the socket and the wake eventfd
//
// The thread sleeps on the eventfd alone while no run is pending.
#include "client/link/background_reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

struct background_reader {
    struct context *context;
    pthread_t thread;
    int wake;                          // eventfd
    void (*finish)(struct context *c); // the thread's own; NULL: it has not inherited the context
    atomic_bool stop;
};

// A pending run whose answer is not complete, on a connection that lives.
static bool has_work(const struct context *c)
{
    for (size_t i = 0; i < LIMIT_RUNS; i++)
        if (c->runs[i].state == RUN_PENDING && !c->runs[i].request.done)
            return !c->connection->lost;
    return false;
}

// Does what can be done without blocking. Returns what to poll for; fd -1, which poll() ignores,
// when no run is pending any more.
static struct pollfd reader_attend(struct background_reader *a)
{
    struct context *c = a->context;
    struct pollfd ret = {-1, 0, 0};
    context_lock(c);
    if (has_work(c))
        connection_attend(c->connection, &ret);
    if (!has_work(c))
        ret.fd = -1;
    context_unlock(c);
    return ret;
}

// A callback may drop the last reference to the context in this thread. It cannot join itself, so
// the thread frees the context when it is back from the callback (`finish`), and then must not
// touch *a.
static void *reader_run(void *arg)
{
    struct background_reader *a = arg;
    uint64_t count;
    while (!atomic_load(&a->stop)) {
        struct pollfd p[] = {{a->wake, POLLIN, 0}, reader_attend(a)};
        if (a->finish) {
            a->finish(a->context); // and with it *a
            break;
        }
        poll(p, 2, -1);
        if ((p[0].revents & POLLIN) && read(a->wake, &count, sizeof count) < 0)
            break;
    }
    return NULL;
}

// All signals are blocked in the thread: they are the program's.
static int reader_start(struct background_reader *a, struct error *e)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&a->thread, NULL, reader_run, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r ? error_set_errno(e, STATUS_FAIL, r, "a thread for custom operators") : 0;
}

int background_reader_new(struct context *c, struct background_reader **ret, struct error *e)
{
    struct background_reader *a = calloc(1, sizeof *a);
    if (!a)
        return error_no_memory(e, "a thread", sizeof *a);
    a->context = c;
    a->wake = eventfd(0, EFD_CLOEXEC);
    int r = a->wake < 0 ? error_set_errno(e, STATUS_FAIL, errno, "a thread for custom operators")
                        : reader_start(a, e);
    if (r == 0) {
        *ret = a;
        return 0;
    }
    fd_close(a->wake);
    free(a);
    return r;
}

void background_reader_wake(struct background_reader *a)
{
    uint64_t one = 1;
    while (write(a->wake, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

bool background_reader_inherit(struct background_reader *a, void (*finish)(struct context *c))
{
    if (!a || !pthread_equal(a->thread, pthread_self()))
        return false;
    a->finish = finish;
    return true;
}

void background_reader_free(struct background_reader *a)
{
    if (!a)
        return;
    atomic_store(&a->stop, true);
    background_reader_wake(a);
    if (pthread_equal(a->thread, pthread_self()))
        pthread_detach(a->thread);
    else
        pthread_join(a->thread, NULL);
    fd_close(a->wake);
    free(a);
}
