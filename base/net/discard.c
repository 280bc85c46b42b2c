// Descriptors to be closed, in a stack, and the threads that close them.
//
// One thread closes them, one after the other, and another one looks every LOOK_MS whether it gets
// on: if not it hangs, and the one that looked takes its place. There are DISCARD_THREADS in all.
// If all of them hang, descriptors stay open: the stack is bounded by the process's limit of
// descriptors, for which it has addresses from the start, so that nothing is allocated, or kept for
// a crowd that has gone. This is of the process and not of a server, since a thread that hangs
// cannot be given back: it ends with the process.
//
// They have less of the processor than the loop, which others wait for. So one of them may be kept
// from the processor for long while it has the lock: the loop does not wait for that, and leaves
// what it has in `late`, where whoever has the lock next finds it. A descriptor is in there once at
// most, so each has its place in a table, and that takes no memory either.
#include "base/net/discard.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/step_back.h"

#define DISCARD_THREADS 16
#define TRIES           200 // of the loop, to have the lock
#define LOOK_MS         2
#define NICE            10         // step_back()
#define DISCARD_MANY    256        // waiting: by then the threads do not only work, they hang
#define DISCARD_MOST    1024       // by then whoever passes more has to go
#define DISCARD_ROOM    (1u << 20) // for as many, where the process may have more

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// Under the lock:
static struct discarded {
    int fd;
    bool unread; // a socket with more of them
} * waiting;
static atomic_uint n_waiting; // read without it, too
static unsigned n_room, n_threads, n_idle;
static bool closing;      // a thread gets on with it, as far as anybody knows
static unsigned closer;   // its number
static unsigned n_closed; // counts on
static bool watched;      // by a thread that takes its place
// Not under the lock:
struct late {
    struct late *next;
    bool unread;
};
static _Atomic(struct late *) late;
static _Atomic(struct late *) places; // by descriptor, n_room of them; NULL: not prepared yet
static atomic_uint n_late;
static sem_t some; // a condition variable's signal may wait for threads that it woke before
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
    sem_init(&some, 0, 0);
}

// Whether the lock is had, which somebody may keep for long.
static bool lock_soon(void)
{
    for (int i = 0; i < TRIES; i++)
        if (pthread_mutex_trylock(&lock) == 0)
            return true;
    return false;
}

// Pages of its own, which cost nothing before they are used.
static void *map_room(size_t size)
{
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

static int make_room(struct error *e)
{
    struct rlimit limit = {.rlim_max = DISCARD_ROOM};
    if (waiting)
        return 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    unsigned n = limit.rlim_max < DISCARD_ROOM ? (unsigned)limit.rlim_max : DISCARD_ROOM;
    struct late *late_ones = map_room(n * sizeof *late_ones);
    waiting = late_ones ? map_room(n * sizeof *waiting) : NULL;
    if (!waiting) {
        if (late_ones)
            munmap(late_ones, n * sizeof *late_ones);
        return error_no_memory(e, "descriptors", n * (sizeof *late_ones + sizeof *waiting));
    }
    n_room = n;
    atomic_store(&places, late_ones);
    return 0;
}

// Without memory for them they stay open: better than a loop that may stand still.
static void add_waiting(struct discarded what)
{
    if (make_room(NULL) == 0 && n_waiting < n_room)
        waiting[n_waiting++] = what;
}

// False: not all of them have a place.
static bool add_late(const int *fds, int n, bool unread)
{
    struct late *all = atomic_load(&places);
    for (int i = 0; i < n; i++)
        if (!all || (unsigned)fds[i] >= n_room)
            return false;
    for (int i = 0; i < n; i++) {
        struct late *l = &all[fds[i]];
        atomic_fetch_add(&n_late, 1); // before it can be taken
        *l = (struct late){.next = atomic_load(&late), .unread = unread};
        while (!atomic_compare_exchange_weak(&late, &l->next, l))
            continue;
    }
    return true;
}

// Under the lock.
static void take_late(void)
{
    struct late *next, *l = atomic_load(&late) ? atomic_exchange(&late, NULL) : NULL;
    for (; l; l = next) {
        next = l->next;
        add_waiting((struct discarded){(int)(l - atomic_load(&places)), l->unread});
        atomic_fetch_sub(&n_late, 1);
    }
}

// Nothing more comes after shutdown(), and what is there is at most a receive buffer.
static void close_socket(int socket)
{
    char bytes[16384]; // nobody reads them
    int passed[FD_MAX_IN_MESSAGE], n = 0;
    while (fd_receive(socket, bytes, sizeof bytes, passed, &n, FD_MAX_IN_MESSAGE) > 0)
        while (n > 0)
            fd_close_passed(passed[--n]);
    fd_close(socket);
}

static void call_another(void);

static void wait_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000};
    pthread_mutex_unlock(&lock);
    nanosleep(&moment, NULL);
    pthread_mutex_lock(&lock);
}

// Until something waits and nobody gets on with it; or nothing waits any more.
static void wait_to_be_needed(void)
{
    bool hangs = false;
    take_late();
    while (n_waiting == 0 || watched) {
        pthread_mutex_unlock(&lock);
        sem_wait(&some);
        pthread_mutex_lock(&lock);
        take_late();
    }
    watched = true;
    while (n_waiting > 0 && closing && !hangs) {
        unsigned before = n_closed;
        wait_a_moment();
        hangs = n_closed == before;
    }
    watched = false;
}

static void close_next(void)
{
    struct discarded d = waiting[--n_waiting];
    call_another(); // this one may hang
    pthread_mutex_unlock(&lock);
    if (d.unread)
        close_socket(d.fd);
    else
        fd_close_passed(d.fd);
    pthread_mutex_lock(&lock);
    n_closed++;
    take_late();
}

// Of one that has hung another has the place.
static void *discard_main(void *unused)
{
    (void)unused;
    step_back(NICE);
    pthread_mutex_lock(&lock);
    for (;;) {
        wait_to_be_needed();
        n_idle--;
        unsigned mine = ++closer;
        closing = true;
        while (n_waiting > 0 && closer == mine)
            close_next();
        closing = closing && closer != mine;
        n_idle++;
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

// Under the lock: what waits has a thread that is awake beside the one that closes.
static void call_another(void)
{
    if (n_waiting == 0 || watched)
        return;
    if (n_idle > 0) {
        sem_post(&some);
    } else if (n_threads < DISCARD_THREADS && start_thread()) {
        n_threads++;
        n_idle++;
    }
}

// False: more wait than there should ever be.
static bool discard_some(const int *fds, int n, bool unread)
{
    bool hang = false, full = false;
    pthread_once(&prepared, prepare);
    bool has_lock = lock_soon();
    if (!has_lock && add_late(fds, n, unread)) {
        sem_post(&some);
        return atomic_load(&n_waiting) + atomic_load(&n_late) < DISCARD_MOST;
    }
    if (!has_lock)
        pthread_mutex_lock(&lock);
    unsigned before = n_waiting;
    take_late();
    for (int i = 0; i < n; i++)
        add_waiting((struct discarded){fds[i], unread});
    call_another();
    full = n_waiting >= DISCARD_MOST;
    hang = before < DISCARD_MANY && n_waiting >= DISCARD_MANY && n_threads == DISCARD_THREADS;
    pthread_mutex_unlock(&lock);
    if (hang)
        log_warn("%u descriptors that clients passed are still open: close() hangs in %d threads",
                 n_waiting, DISCARD_THREADS);
    return !full;
}

int discard_prepare(struct error *e)
{
    pthread_mutex_lock(&lock);
    int r = make_room(e);
    pthread_mutex_unlock(&lock);
    return r;
}

void discard_fd(int fd)
{
    if (fd >= 0)
        discard_some(&fd, 1, false);
}

bool discard_fds(const int *fds, int n)
{
    return n == 0 || discard_some(fds, n, false);
}

// Mostly there is nothing in it, and then nothing to wait for. The thread is for the rest.
void discard_socket(int socket)
{
    char byte;
    if (!fd_is_unix(socket)) {
        fd_close(socket);
        return;
    }
    fd_unblock(socket);
    fd_take_urgent(socket);
    shutdown(socket, SHUT_RD);
    if (recv(socket, &byte, 1, MSG_PEEK) > 0)
        discard_some(&socket, 1, true);
    else
        fd_close(socket);
}
