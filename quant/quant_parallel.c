// Each thread takes the next part. Parts begin in order, so the first one that fails is among those
// that were begun, whichever thread is how fast.
#include "quant/quant_parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct parallel {
    quant_part *part;
    void *user;
    uint32_t n;
    _Atomic uint32_t next;
    atomic_bool failed;
};

struct parallel_thread {
    struct parallel *p;
    pthread_t thread;
    uint32_t at; // the part that failed
    struct error error;
    int status;
};

static void *parallel_work(void *user)
{
    struct parallel_thread *t = user;
    while (!t->p->failed) {
        t->at = atomic_fetch_add(&t->p->next, 1);
        if (t->at >= t->p->n)
            break;
        t->status = t->p->part(t->p->user, t->at, &t->error);
        if (t->status < 0)
            t->p->failed = true;
        if (t->status < 0)
            break;
    }
    return NULL;
}

uint32_t quant_processors(void)
{
    cpu_set_t all;
    int n = sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 1;
    return n < QUANT_MOST_CLIENTS ? (uint32_t)n : QUANT_MOST_CLIENTS;
}

int quant_parallel(uint32_t n_threads, uint32_t n, quant_part *part, void *user, struct error *e)
{
    struct parallel p = {.part = part, .user = user, .n = n};
    struct parallel_thread threads[QUANT_MOST_CLIENTS] = {{.p = &p}};
    uint32_t started = 1, most = n_threads < n ? n_threads : n;
    const struct parallel_thread *first = NULL;
    for (; started < most && started < QUANT_MOST_CLIENTS; started++) {
        threads[started] = (struct parallel_thread){.p = &p};
        if (pthread_create(&threads[started].thread, NULL, parallel_work, &threads[started]) != 0)
            break; // fewer take longer
    }
    parallel_work(&threads[0]);
    for (uint32_t i = 0; i < started; i++) {
        const struct parallel_thread *t = &threads[i];
        if (i)
            pthread_join(t->thread, NULL);
        if (t->status < 0 && (!first || t->at < first->at))
            first = t;
    }
    if (first && e)
        *e = first->error;
    return first ? first->status : 0;
}
