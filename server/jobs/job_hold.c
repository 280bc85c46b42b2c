// Cores of runs that wait for their clients. What is left of a run's time with cores is kept from
// one wait to the next, or a client that answers each part just in time would hold them for ever.
#include "server/jobs/job_hold.h"

void job_hold_init(struct job_hold *h, struct runner_job *run, struct job_timer *timer,
                   uint32_t limit_ms)
{
    h->state = HOLD_NOTHING;
    h->run = run;
    h->timer = timer;
    h->left_ms = limit_ms;
    list_init(&h->deadline.link);
}

// Without time left it is suspended from the loop, since the caller is in the middle of the run's
// part.
void job_hold_begin(struct job_hold *h)
{
    uint32_t most_ms = h->is_wanted(h) ? HOLD_WANTED_MS : UINT32_MAX;
    h->state = HOLD_CORES;
    h->since_ms = uv_now(h->timer->timer.loop);
    job_timer_set(h->timer, &h->deadline, h->left_ms < most_ms ? h->left_ms : most_ms);
}

// The loop's clock, in milliseconds, is coarse: a wait costs one at least, so that many short ones
// come to an end, too.
static void count_waited(struct job_hold *h)
{
    uint64_t ms = uv_now(h->timer->timer.loop) - h->since_ms + 1;
    h->left_ms -= ms < h->left_ms ? (uint32_t)ms : h->left_ms;
}

void job_hold_end(struct job_hold *h)
{
    if (h->state == HOLD_CORES) {
        count_waited(h);
        job_hold_reset(h);
        runner_job_next(h->run);
    } else if (h->state == HOLD_SUSPENDED) {
        h->state = HOLD_RESUMES;
        runner_job_answered(h->run);
        h->resume(h);
    }
}

void job_hold_continue(struct job_hold *h)
{
    h->state = HOLD_NOTHING;
    runner_job_next(h->run);
}

void job_hold_expire(struct job_deadline *d)
{
    struct job_hold *h = container_of(d, struct job_hold, deadline);
    count_waited(h);
    h->state = HOLD_SUSPENDED;
    h->suspend(h);
}

void job_hold_reset(struct job_hold *h)
{
    list_remove(&h->deadline.link);
    h->state = HOLD_NOTHING;
}
