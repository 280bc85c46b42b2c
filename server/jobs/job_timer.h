// When jobs have to be looked at again although nothing has come: at their deadlines, and when one
// that left the queue has made room for another.
#pragma once

#include <uv.h>

#include "base/list.h"

struct job;

struct job_timer {
    uv_timer_t timer;
    struct list deadlines; // struct job, in any order
    uint64_t alarm_ms;     // when the timer goes off
};

/// Closed by uv_close() on its timer.
void job_timer_init(struct job_timer *t, uv_loop_t *loop);

/// job_expire(j) comes in j->limit_ms, unless the job ends before.
void job_timer_set(struct job_timer *t, struct job *j);

/// jobs_schedule() comes soon, from the loop.
void job_timer_schedule(struct job_timer *t);
