// The keep-alive thread: heartbeats for connections on which no call is under way.
//
// keeper.lock guards the list and the thread's state. The thread holds it while it looks at all
// connections but only tries their locks: one that is taken is in use, and the call tends it
// (fork_modules.c has the order of locks). `turn` is raised to end a thread: one that sees another
// turn than its own ends, even if a new thread was started meanwhile.
#include "client/link/keepalive.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/cleanup.h"

#define END_S 1 // what the thread has at most to end in when the process ends; it needs none of it

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; // CLOCK_MONOTONIC
    struct list connections;
    bool running;
    pthread_t thread;
    unsigned turn; // of the thread that is to run; older ones end
} keeper = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .connections = {&keeper.connections, &keeper.connections}};

static _Atomic unsigned fork_number;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Deadlines are clock_ms(), so the condition has to use the monotonic clock.
static void init_condition(void)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper.changed, &a);
    pthread_condattr_destroy(&a);
}

// Tends all connections that are not in use. Returns when to do so next: after half of the shortest
// heartbeat.
static uint64_t tend_all(void)
{
    struct connection *c;
    uint64_t interval = UINT32_MAX;
    list_for_each (c, &keeper.connections, link) {
        if (pthread_mutex_trylock(&c->lock) == 0) {
            connection_tend(c);
            pthread_mutex_unlock(&c->lock);
        }
        // The limits do not change after hello, so they can be read without the lock.
        uint64_t half = c->peer.limits.heartbeat_ms / 2;
        interval = half < interval ? half : interval;
    }
    return clock_ms() + interval;
}

// The thread's body; `turn` is its number.
static void *keep_alive(void *turn)
{
    pthread_mutex_lock(&keeper.lock);
    while ((unsigned)(uintptr_t)turn == keeper.turn) {
        uint64_t next = tend_all();
        struct timespec t = {(time_t)(next / 1000), (long)(next % 1000) * 1000000};
        pthread_cond_timedwait(&keeper.changed, &keeper.lock, &t);
    }
    pthread_mutex_unlock(&keeper.lock);
    return NULL;
}

// Starts the thread, all signals blocked: they are the program's. keeper.lock is held.
static int keepalive_start(struct error *e)
{
    sigset_t all, old;
    void *turn = (void *)(uintptr_t)keeper.turn;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&keeper.thread, NULL, keep_alive, turn);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, r, "the keep-alive thread cannot be started");
    pthread_setname_np(keeper.thread, "rknnd-alive");
    keeper.running = true;
    return 0;
}

// How often this process (or an ancestor) has been forked since the library was loaded.
static unsigned keepalive_fork_number(void)
{
    return atomic_load(&fork_number);
}

int keepalive_add(struct connection *c, struct error *e)
{
    pthread_once(&once, init_condition);
    pthread_mutex_lock(&keeper.lock);
    int r = keeper.running ? 0 : keepalive_start(e);
    if (r == 0) {
        c->fork_number = keepalive_fork_number();
        list_append(&keeper.connections, &c->link);
        pthread_cond_signal(&keeper.changed);
    }
    pthread_mutex_unlock(&keeper.lock);
    return r;
}

// The thread takes keeper.lock, so it is joined without it.
void keepalive_remove(struct connection *c)
{
    pthread_mutex_lock(&keeper.lock);
    list_remove(&c->link);
    bool last = keeper.running && list_empty(&keeper.connections);
    pthread_t thread = keeper.thread;
    if (last) {
        keeper.running = false;
        keeper.turn++;
        pthread_cond_signal(&keeper.changed);
    }
    pthread_mutex_unlock(&keeper.lock);
    if (last)
        pthread_join(thread, NULL);
}

bool keepalive_is_inherited(const struct connection *c)
{
    return c->fork_number != keepalive_fork_number();
}

void keepalive_before_fork(void)
{
    pthread_mutex_lock(&keeper.lock);
}

// In the child the thread does not exist, and the sockets are shared with the parent: they are
// closed here without a Goodbye, which would end the parent's connections. The condition may have
// been caught in use, so it is made anew.
void keepalive_after_fork(bool child)
{
    if (child) {
        struct connection *c, *after;
        atomic_fetch_add(&fork_number, 1);
        list_for_each_safe (c, after, &keeper.connections, link) {
            stream_close(&c->stream);
            c->lost = true;
            list_remove(&c->link);
        }
        keeper.running = false;
        keeper.turn++;
        init_condition();
    }
    pthread_mutex_unlock(&keeper.lock);
}

// By the monotonic clock, which pthread_mutex_timedlock() does not know; pthread_mutex_clocklock()
// does, but ThreadSanitizer not it.
static bool lock_until(uint64_t deadline_ms)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (pthread_mutex_trylock(&keeper.lock) != 0) {
        if (clock_ms() >= deadline_ms)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

// Ends the thread at the end of the process, before the memory that it uses is torn down. The
// library itself is never unloaded (-z nodelete), so dlclose() does not come here. A signal handler
// may have called exit() while this thread held the lock: then the keep-alive thread is left alone.
__attribute__((destructor)) static void end_with_the_process(void)
{
    uint64_t deadline_ms = clock_ms() + END_S * 1000;
    if (!lock_until(deadline_ms))
        return;
    bool running = keeper.running;
    pthread_t thread = keeper.thread;
    if (running) {
        keeper.running = false;
        keeper.turn++;
        pthread_cond_signal(&keeper.changed);
    }
    pthread_mutex_unlock(&keeper.lock);
    const struct timespec until = {(time_t)(deadline_ms / 1000),
                                   (long)(deadline_ms % 1000 * 1000000)};
    if (running)
        pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
}
