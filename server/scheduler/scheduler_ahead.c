// What is before a job: its queue, what runs, and others' turns.
#include "server/scheduler/scheduler_ahead.h"

// That are looked at: queues of each priority, and jobs of each queue.
#define LOOK_QUEUES 64u
#define LOOK_JOBS   8u

// Of the first `most` in a queue. Runs of one context are alike: some are looked at.
static uint64_t sum_of_queue(const struct scheduler_ahead *now, const struct scheduler_queue *q,
                             unsigned most)
{
    const struct scheduler_job *j;
    uint64_t us = 0;
    unsigned n = q->n_jobs < most ? q->n_jobs : most, looked = 0;
    list_for_each (j, &q->jobs, link) {
        if (looked == n || looked == LOOK_JOBS)
            break;
        us += now->expected_us(j);
        looked++;
    }
    return looked > 0 && looked < n ? us * n / looked : us;
}

// Of at most `most` runs of each queue of a class, without `own`. What there is behind those that
// are looked at is taken for more of the same.
static uint64_t sum_of_class(const struct scheduler_ahead *now, const struct scheduler_class *class,
                             const struct scheduler_queue *own, unsigned most, bool *ret_any)
{
    const struct scheduler_queue *q;
    uint64_t us = 0;
    unsigned looked = 0;
    list_for_each (q, &class->ready, link) {
        if (looked == LOOK_QUEUES)
            break;
        looked++;
        if (q == own)
            continue;
        us += sum_of_queue(now, q, most);
        *ret_any = true;
    }
    return looked > 0 && looked < class->n_ready ? us * class->n_ready / looked : us;
}

// Core-time of what runs and does not give way to `own`. *ret_own: time of own's job among it.
static uint64_t running_us(const struct scheduler *s, const struct scheduler_queue *own,
                           const struct scheduler_ahead *now, uint64_t *ret_own)
{
    const struct scheduler_job *r;
    uint64_t us = 0;
    list_for_each (r, &s->running, link) {
        uint64_t all = now->expected_us(r), had = now->now_us - r->started_us;
        uint64_t left = all > had ? all - had : 0;
        *ret_own += r->queue == own ? left : 0;
        if (!now->gives_way || r->queue->priority <= own->priority)
            us += left * (unsigned)__builtin_popcount(r->placed);
    }
    return us;
}

// Of others as well: what has a higher priority, and of its own as many runs of each queue as are
// in `own` with the new one.
uint64_t scheduler_ahead_us(const struct scheduler *s, const struct scheduler_queue *own,
                            const struct scheduler_ahead *now)
{
    unsigned turns = own->n_jobs + 1;
    uint64_t own_us = sum_of_queue(now, own, UINT32_MAX), us = running_us(s, own, now, &own_us);
    bool waits = __builtin_popcount(s->busy) == (int)s->n_cores;
    for (int p = 0; p <= own->priority; p++)
        us +=
            sum_of_class(now, &s->classes[p], own, p == own->priority ? turns : UINT32_MAX, &waits);
    us = waits ? us / s->n_cores : 0;
    return us > own_us ? us : own_us;
}
