// A few threads that do tasks in order of arrival.
//
//   threads_do() --> todo --> a thread's hand: work() ... threads_post() --> done --> on_wake():
//   finish()
//    loop            loop     loop and thread              any thread                  loop
//
// The loop waits for no thread, wherever that one may have lost the processor: there is no lock.
// `todo` is the loop's own. A task goes into the hand of a thread that is idle, by one exchange,
// and into `done`, a stack, by another. A thread wakes the loop when a task is done, and when it is
// idle and something is to do. Waking is by an eventfd, which merges several into one. (libuv's own
// way, uv_async_send(), has the loop spin while the thread that sends is kept from the processor.)
// Threads that hang are abandoned: they keep the struct, which is never freed.
#include "server/threads.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/net/watch.h"
#include "server/turns.h"

#define AGAIN_MS 2

struct hand {
    struct threads *all;
    pthread_t thread;
    sem_t wake;
    _Atomic(struct task *) task; // NULL: idle. Given by the loop; &busy while the thread works
    struct task *works_on;       // the thread's; for who looks for leaks
};

struct threads {
    uv_poll_t poll;
    int wake_fd; // an eventfd that the loop polls
    // Of the eventfd and of the struct: the loop, and whoever is posting. The last one closes.
    atomic_uint holders;
    atomic_uint n_running;
    atomic_bool stopping, abandoned;
    atomic_bool wanted;          // there are tasks to do: who becomes idle says so
    _Atomic(struct task *) done; // the latest first
    // The loop's:
    struct list todo;
    bool ending; // once nothing is in `todo`
    unsigned n_threads;
    struct hand hands[THREADS_MAX];
    unsigned n_joined, n_open; // threads, handles
    uv_timer_t again;          // to join
    void (*closed)(void *owner);
    void *owner;
    struct threads *given_up_before; // in given_up
};

// Those that were abandoned. They are never freed, and whoever looks for leaks finds them here.
static _Atomic(struct threads *) given_up;

static struct task busy; // what the hand of a thread that works holds

// ---- who may still wake the loop ----------------------------------------------------------------

// False: it is closed. Only threads that were given up see that.
static bool threads_hold(struct threads *s)
{
    unsigned n = atomic_load(&s->holders);
    while (n > 0 && !atomic_compare_exchange_weak(&s->holders, &n, n + 1))
        continue;
    return n > 0;
}

static void threads_let_go(struct threads *s)
{
    if (atomic_fetch_sub(&s->holders, 1) > 1)
        return;
    fd_close(s->wake_fd);
    if (atomic_load(&s->abandoned))
        return;
    for (unsigned i = 0; i < s->n_threads; i++)
        sem_destroy(&s->hands[i].wake);
    free(s);
}

// What is held here is the descriptor, which another one could have the number of.
static void wake_loop(struct threads *s)
{
    if (!threads_hold(s))
        return;
    eventfd_write(s->wake_fd, 1);
    threads_let_go(s);
}

// ---- a thread -----------------------------------------------------------------------------------

static void do_task(struct hand *h, struct task *t)
{
    h->works_on = t;
    t->work(t); // and somebody may have finished it by now
    h->works_on = NULL;
    atomic_store(&h->task, NULL);
    if (atomic_load(&h->all->wanted))
        wake_loop(h->all);
}

// A task that was taken back leaves an empty hand.
static struct task *take_task(struct hand *h)
{
    struct task *t = atomic_load(&h->task);
    return t && atomic_compare_exchange_strong(&h->task, &t, &busy) ? t : NULL;
}

// The body of a thread. The last one to end wakes the loop, which then joins all. Those that were
// given up forget what they have not begun.
static void *thread_main(void *arg)
{
    struct hand *h = arg;
    struct threads *s = h->all;
    for (;;) {
        while (sem_wait(&h->wake) < 0)
            continue;
        if (atomic_load(&s->abandoned))
            break;
        struct task *t = take_task(h);
        if (t)
            do_task(h, t);
        else if (atomic_load(&s->stopping))
            break;
    }
    if (atomic_fetch_sub(&s->n_running, 1) == 1)
        wake_loop(s);
    return NULL;
}

// Signals are blocked in the new thread: they are for the loop's.
static int start_thread(struct threads *s, struct error *e)
{
    sigset_t all, old;
    struct hand *h = &s->hands[s->n_threads];
    *h = (struct hand){.all = s};
    sem_init(&h->wake, 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int r = pthread_create(&h->thread, NULL, thread_main, h);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, r, "cannot start a thread");
    s->n_threads++;
    return 0;
}

// ---- the loop -----------------------------------------------------------------------------------

static void wake_all(struct threads *s)
{
    for (unsigned i = 0; i < s->n_threads; i++)
        sem_post(&s->hands[i].wake);
}

// The first one, so that few threads work where few are needed.
static struct hand *idle_hand(struct threads *s)
{
    for (unsigned i = 0; i < s->n_threads; i++)
        if (!atomic_load(&s->hands[i].task))
            return &s->hands[i];
    return NULL;
}

// `wanted` is set before the hands are looked at, and a thread looks at it when its hand is empty:
// so one of the two sees the other.
static void deal(struct threads *s)
{
    struct task *t;
    struct hand *h;
    atomic_store(&s->wanted, !list_empty(&s->todo));
    while ((t = list_first(&s->todo, struct task, link)) && (h = idle_hand(s))) {
        list_remove(&t->link);
        t->hand = h;
        atomic_store(&h->task, t);
        sem_post(&h->wake);
    }
    if (list_empty(&s->todo))
        atomic_store(&s->wanted, false);
    if (s->ending && list_empty(&s->todo) && !atomic_exchange(&s->stopping, true))
        wake_all(s);
}

// Nobody but the loop makes an idle hand another.
void threads_do(struct threads *s, struct task *t)
{
    assert(!s->ending);
    t->threads = s;
    t->hand = NULL;
    list_append(&s->todo, &t->link);
    deal(s);
}

// What is in a hand is either taken back or begun.
bool threads_take_back(struct threads *s, struct task *t)
{
    struct task *given = t;
    if (t->hand && !atomic_compare_exchange_strong(&t->hand->task, &given, NULL))
        return false;
    if (!t->hand)
        list_remove(&t->link);
    deal(s);
    return true;
}

static void on_closed(uv_handle_t *handle)
{
    struct threads *s = handle->data;
    if (--s->n_open > 0)
        return;
    if (s->closed)
        s->closed(s->owner);
    threads_let_go(s);
}

static void close_handles(struct threads *s)
{
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->again, on_closed);
}

static void join_all(struct threads *s);

static void on_again(uv_timer_t *timer)
{
    join_all(timer->data);
}

// All threads have left their loops, but have to come to their ends, for which they may need a
// processor that they do not get.
static void join_all(struct threads *s)
{
    for (; s->n_joined < s->n_threads; s->n_joined++)
        if (pthread_tryjoin_np(s->hands[s->n_joined].thread, NULL) == EBUSY) {
            uv_timer_start(&s->again, on_again, AGAIN_MS, 0);
            return;
        }
    uv_poll_stop(&s->poll);
    close_handles(s);
}

// All that is done, the earliest first, linked by `next`.
static struct task *take_done(struct threads *s)
{
    struct task *t = atomic_exchange(&s->done, NULL), *first = NULL, *next;
    for (; t; t = next) {
        next = t->next;
        t->next = first;
        first = t;
    }
    return first;
}

// finish() may call anything, also threads_free(), and may free the task; the struct stays until
// on_closed().
static void on_wake(uv_poll_t *poll, int status, int events)
{
    struct threads *s = container_of(poll, struct threads, poll);
    struct task *t, *next;
    eventfd_t n;
    (void)status;
    (void)events;
    turns_mark(poll->loop, "what threads have done");
    eventfd_read(s->wake_fd, &n);
    bool ended = atomic_load(&s->stopping) && atomic_load(&s->n_running) == 0;
    for (t = take_done(s); t; t = next) {
        next = t->next;
        t->finish(t);
    }
    if (!ended)
        deal(s);
    else if (!uv_is_active((uv_handle_t *)&s->again) && !uv_is_closing((uv_handle_t *)&s->poll))
        join_all(s);
}

// A thread counts as running before it starts, so that an early end cannot make the count 0.
int threads_grow(struct threads *s, unsigned n, struct error *e)
{
    int r = 0;
    assert(n <= THREADS_MAX);
    while (r == 0 && s->n_threads < n) {
        atomic_fetch_add(&s->n_running, 1);
        r = start_thread(s, e);
    }
    if (r < 0)
        atomic_fetch_sub(&s->n_running, 1);
    deal(s);
    return r;
}

static int watch_wakes(struct threads *s, uv_loop_t *loop, struct error *e)
{
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->wake_fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "cannot wake the loop");
    int r = uv_poll_init(loop, &s->poll, s->wake_fd);
    if (r < 0)
        return error_set(e, STATUS_FAIL, "cannot wake the loop: %s", uv_strerror(r));
    uv_timer_init(loop, &s->again);
    s->poll.data = s->again.data = s;
    s->n_open = 2;
    return 0;
}

// On failure the struct is freed when the loop has closed the handle.
int threads_new(uv_loop_t *loop, struct threads **ret, struct error *e)
{
    struct threads *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "threads", sizeof *s);
    atomic_init(&s->holders, 1);
    list_init(&s->todo);
    int r = watch_wakes(s, loop, e);
    if (r < 0) {
        fd_close(s->wake_fd);
        free(s);
        return r;
    }
    r = watch_start(&s->poll, UV_READABLE, on_wake, e);
    if (r == 0)
        r = threads_grow(s, 1, e);
    if (r < 0) {
        close_handles(s);
        return r;
    }
    *ret = s;
    return 0;
}

// The loop may have finished the task, and closed everything, before it is woken here. After
// threads_abandon() nobody wants the task. It is kept where it can be found: else it would look
// like a leak.
void threads_post(struct threads *s, struct task *t)
{
    bool held = threads_hold(s);
    t->threads = s;
    t->next = atomic_load(&s->done);
    while (!atomic_compare_exchange_weak(&s->done, &t->next, t))
        continue;
    if (!held)
        return;
    eventfd_write(s->wake_fd, 1);
    threads_let_go(s);
}

// A thread ends when it is woken and has no task; all that it has posted by then is finished.
void threads_free(struct threads *s, void (*closed)(void *owner), void *owner)
{
    s->closed = closed;
    s->owner = owner;
    s->ending = true;
    deal(s);
}

// On Linux policy and nice value belong to a thread.
// Tasks that no thread has begun are forgotten. Detached threads end with the process.
void threads_abandon(struct threads *s, void (*closed)(void *owner), void *owner)
{
    s->closed = closed;
    s->owner = owner;
    atomic_store(&s->abandoned, true);
    s->given_up_before = atomic_exchange(&given_up, s);
    wake_all(s);
    for (unsigned i = 0; i < s->n_threads; i++)
        pthread_detach(s->hands[i].thread);
    close_handles(s);
}
