// Jobs that take their time without working.
#pragma once

#include <sys/prctl.h>

#include "base/clock.h"
#include "npu/stop.h"

#define PACE_STEP_US 5000 // a stop is seen after so long at the latest

/// Sleeps until then_us of clock_us(); STATUS_FAIL if the job is stopped before.
static inline int pace_until(const struct npu_job *job, uint64_t then_us, struct error *e)
{
    prctl(PR_SET_TIMERSLACK, 1UL); // nanosecond; by default Linux adds 50 us to a sleep
    for (uint64_t now; (now = clock_us()) < then_us;) {
        int r = npu_stop_check(job->stop, e);
        if (r < 0)
            return r;
        if (then_us - now > PACE_STEP_US)
            clock_sleep_until(now + PACE_STEP_US);
        else
            clock_wait_until(then_us);
    }
    return 0;
}
