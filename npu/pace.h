// Jobs that take their time without working.
#pragma once

#include <stdatomic.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "npu/npu.h"

#define PACE_STEP_US 5000 // a stop is seen after so long at the latest

static inline bool pace_is_stopped(const struct npu_job *job)
{
    return job->stop && atomic_load_explicit(job->stop, memory_order_relaxed);
}

/// Sleeps until then_us of clock_us(); STATUS_FAIL if the job is stopped before.
static inline int pace_until(const struct npu_job *job, uint64_t then_us, struct error *e)
{
    prctl(PR_SET_TIMERSLACK, 1UL); // nanosecond; by default Linux adds 50 us to a sleep
    for (uint64_t now; (now = clock_us()) < then_us;) {
        if (pace_is_stopped(job))
            return error_set(e, STATUS_FAIL, "the run was stopped");
        if (then_us - now > PACE_STEP_US)
            clock_sleep_until(now + PACE_STEP_US);
        else
            clock_wait_until(then_us);
    }
    return 0;
}
