// Descriptors to be closed, in a stack, and the threads that close them.
//
// A thread is started when a descriptor comes and none is idle, so those that hang are replaced,
// DISCARD_THREADS in all. If all of them hang, descriptors stay open: the stack is bounded by the
// process's limit of descriptors. This is of the process and not of a server, since a thread that
// hangs cannot be given back: it ends with the process.
#include "server/net/discard.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define DISCARD_THREADS 16
#define DISCARD_MANY    256 // waiting: by then the threads do not only work, they hang

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
// Under the lock:
static int *fds;
static unsigned n_fds, n_room, n_threads, n_idle;

// Sockets are not to wait for their last bytes. Even this call may wait: somebody else may have the
// socket's lock.
static void close_at_last(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    fd_close(fd);
}

static void *discard_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        n_idle++;
        while (n_fds == 0)
            pthread_cond_wait(&some, &lock);
        n_idle--;
        int fd = fds[--n_fds];
        pthread_mutex_unlock(&lock);
        close_at_last(fd);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

// Signals are for the loop's thread.
static bool start_thread(void)
{
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int r = pthread_create(&thread, NULL, discard_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        pthread_detach(thread);
    return r == 0;
}

// Without memory for it a descriptor stays open: better than a loop that may stand still.
void discard_fd(int fd)
{
    bool hang = false;
    if (fd < 0)
        return;
    pthread_mutex_lock(&lock);
    if (array_reserve(fds, n_room, n_fds + 1, "descriptors", NULL) == 0)
        fds[n_fds++] = fd;
    if (n_idle < n_fds && n_threads < DISCARD_THREADS && start_thread())
        n_threads++;
    hang = n_fds == DISCARD_MANY && n_threads == DISCARD_THREADS;
    pthread_cond_signal(&some);
    pthread_mutex_unlock(&lock);
    if (hang)
        log_warn("%d descriptors that clients passed are still open: close() hangs in %d threads",
                 DISCARD_MANY, DISCARD_THREADS);
}

// Nothing more comes after shutdown(), and what is there is at most a receive buffer.
void discard_unread(int socket)
{
    char bytes[16384]; // nobody reads them
    int passed[FD_MAX_IN_MESSAGE], n = 0;
    fd_unblock(socket);
    shutdown(socket, SHUT_RD);
    while (fd_receive(socket, bytes, sizeof bytes, passed, &n, FD_MAX_IN_MESSAGE) > 0)
        while (n > 0)
            discard_fd(passed[--n]);
}
