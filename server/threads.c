// A few threads that do tasks in order of arrival.
//
//   threads_do() --> todo --> a thread: work() ... threads_post() --> done --> on_async(): finish()
//    loop                                            any thread                  loop
//
// `lock` guards both lists. uv_async_send() merges several wake-ups into one, so on_async() takes
// all that is in `done`. Threads that hang are abandoned: they keep the struct, which is never
// freed.
#include "server/threads.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "server/turns.h"

struct threads {
    uv_async_t async;
    pthread_mutex_t lock;
    pthread_cond_t work;
    // Under the lock:
    struct list todo, done; // tasks
    struct list late;       // that ended after nobody wanted them any more
    // One for each thread at work: what a thread that hangs works on is found here by whoever looks
    // for leaks.
    struct task *running[THREADS_MAX];
    bool stopping, abandoned;
    unsigned n_running;
    // The loop's:
    unsigned n_threads;
    pthread_t threads[THREADS_MAX];
    void (*closed)(void *owner);
    void *owner;
    struct threads *given_up_before; // in given_up
};

// Those that were abandoned. They are never freed, and whoever looks for leaks finds them here.
static _Atomic(struct threads *) given_up;

// Under the lock; waits for a task. NULL: the threads are to end, or were given up.
static struct task *next_task(struct threads *s)
{
    while (list_empty(&s->todo) && !s->stopping)
        pthread_cond_wait(&s->work, &s->lock);
    struct task *t = s->abandoned ? NULL : list_first(&s->todo, struct task, link);
    if (t) {
        list_remove(&t->link);
        t->waiting = false;
    }
    return t;
}

static struct task **free_place(struct threads *s)
{
    unsigned i = 0;
    while (s->running[i])
        i++;
    return &s->running[i];
}

// The body of a thread. The last one to end wakes the loop, which then joins all.
static void *thread_main(void *arg)
{
    struct threads *s = arg;
    struct task *t;
    pthread_mutex_lock(&s->lock);
    while ((t = next_task(s))) {
        struct task **place = free_place(s);
        *place = t;
        pthread_mutex_unlock(&s->lock);
        t->work(t);
        pthread_mutex_lock(&s->lock);
        *place = NULL;
    }
    if (--s->n_running == 0 && !s->abandoned)
        uv_async_send(&s->async);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// libuv has let go of the async handle, so the struct may go.
static void on_closed(uv_handle_t *handle)
{
    struct threads *s = container_of((uv_async_t *)handle, struct threads, async);
    if (s->closed)
        s->closed(s->owner);
    if (s->abandoned)
        return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    free(s);
}

// Does not block for long: all threads have left their loops.
static void join_all(struct threads *s)
{
    for (unsigned i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    uv_close((uv_handle_t *)&s->async, on_closed);
}

// The next task to finish. NULL: none; *ret_ended then says whether all threads have ended.
static struct task *next_done(struct threads *s, bool *ret_ended)
{
    pthread_mutex_lock(&s->lock);
    struct task *t = list_first(&s->done, struct task, link);
    if (t)
        list_remove(&t->link);
    *ret_ended = !t && s->stopping && s->n_running == 0;
    pthread_mutex_unlock(&s->lock);
    return t;
}

// finish() may call anything, also threads_free(); the struct stays until on_closed().
static void on_async(uv_async_t *async)
{
    struct threads *s = container_of(async, struct threads, async);
    struct task *t;
    bool ended;
    turns_mark(async->loop, "what threads have done");
    while ((t = next_done(s, &ended)))
        t->finish(t);
    if (ended)
        join_all(s);
}

// Signals are blocked in the new thread: they are for the loop's.
static int start_thread(struct threads *s, struct error *e)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int r = pthread_create(&s->threads[s->n_threads], NULL, thread_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, r, "cannot start a thread");
    s->n_threads++;
    return 0;
}

// A thread counts as running before it starts, so that an early end cannot make the count 0.
int threads_grow(struct threads *s, unsigned n, struct error *e)
{
    assert(n <= THREADS_MAX);
    while (s->n_threads < n) {
        pthread_mutex_lock(&s->lock);
        s->n_running++;
        pthread_mutex_unlock(&s->lock);
        int r = start_thread(s, e);
        if (r == 0)
            continue;
        pthread_mutex_lock(&s->lock);
        s->n_running--;
        pthread_mutex_unlock(&s->lock);
        return r;
    }
    return 0;
}

// On failure the struct is freed when the loop has closed the handle.
int threads_new(uv_loop_t *loop, struct threads **ret, struct error *e)
{
    struct threads *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "threads", sizeof *s);
    int r = uv_async_init(loop, &s->async, on_async);
    if (r < 0) {
        free(s);
        return error_set(e, STATUS_FAIL, "cannot wake the loop: %s", uv_strerror(r));
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    list_init(&s->todo);
    list_init(&s->done);
    list_init(&s->late);
    r = threads_grow(s, 1, e);
    if (r < 0) {
        uv_close((uv_handle_t *)&s->async, on_closed);
        return r;
    }
    *ret = s;
    return 0;
}

void threads_do(struct threads *s, struct task *t)
{
    t->threads = s;
    pthread_mutex_lock(&s->lock);
    assert(!s->stopping);
    t->waiting = true;
    list_append(&s->todo, &t->link);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// `waiting` changes only under the lock, so a task is either taken back or worked on.
bool threads_take_back(struct threads *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    bool waiting = t->waiting;
    if (waiting) {
        list_remove(&t->link);
        t->waiting = false;
    }
    pthread_mutex_unlock(&s->lock);
    return waiting;
}

// After threads_abandon() nobody wants the task, and the async handle may be closed. It is kept
// where it can be found: else it would look like a leak.
void threads_post(struct threads *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    t->threads = s;
    list_append(s->abandoned ? &s->late : &s->done, &t->link);
    if (!s->abandoned)
        uv_async_send(&s->async);
    pthread_mutex_unlock(&s->lock);
}

// Ends idle threads; tasks that were posted are still finished on the loop.
void threads_free(struct threads *s, void (*closed)(void *owner), void *owner)
{
    s->closed = closed;
    s->owner = owner;
    pthread_mutex_lock(&s->lock);
    assert(list_empty(&s->todo));
    s->stopping = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// Tasks that no thread has begun are forgotten. Detached threads end with the process.
void threads_abandon(struct threads *s, void (*closed)(void *owner), void *owner)
{
    s->closed = closed;
    s->owner = owner;
    pthread_mutex_lock(&s->lock);
    s->stopping = s->abandoned = true;
    s->given_up_before = atomic_exchange(&given_up, s);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->n_threads; i++)
        pthread_detach(s->threads[i]);
    uv_close((uv_handle_t *)&s->async, on_closed);
}
