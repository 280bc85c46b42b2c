// libuv ends the process when a thread of its own cannot start. So as many as are needed are tried
// first, all at once: who has too few is told so.
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "server/threads.h"

struct trial {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
};

static void *wait_for_end(void *of)
{
    struct trial *t = of;
    pthread_mutex_lock(&t->lock);
    while (!t->is_over)
        pthread_cond_wait(&t->over, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

// Signals are for the loop's thread.
static unsigned start_all(struct trial *t, pthread_t *threads, unsigned n, int *ret_error)
{
    sigset_t all, old;
    unsigned started = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    *ret_error = 0;
    while (started < n && *ret_error == 0) {
        *ret_error = pthread_create(&threads[started], NULL, wait_for_end, t);
        started += *ret_error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

int threads_check(unsigned n, struct error *e)
{
    struct trial t = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};
    pthread_t threads[THREADS_MAX];
    int why;
    unsigned started = start_all(&t, threads, n < THREADS_MAX ? n : THREADS_MAX, &why);
    pthread_mutex_lock(&t.lock);
    t.is_over = true;
    pthread_cond_broadcast(&t.over);
    pthread_mutex_unlock(&t.lock);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (why == 0)
        return 0;
    return error_set_errno(e, STATUS_MALLOC_FAIL, why,
                           "only %u of the %u threads that are needed at the start can be started; "
                           "look at the limits of the user's processes (ulimit -u, LimitNPROC=), "
                           "of the process's addresses (ulimit -v, LimitAS=) and of the control "
                           "group (TasksMax=)",
                           started, n);
}
