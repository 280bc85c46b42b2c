// How long it is likely to be until a job's turn comes, from what runs of others are expected to
// take.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "server/scheduler/scheduler.h"

struct scheduler_ahead {
    uint64_t now_us; // the scheduler's clock
    bool gives_way;  // what runs is interrupted by what is more urgent
    /// What a job takes on its cores, in all; 0: not known.
    uint64_t (*expected_us)(const struct scheduler_job *j);
};

/// Microseconds before a job that came to the end of queue `own` now. Looks at a bounded number of
/// jobs and takes the rest for more of the same.
uint64_t scheduler_ahead_us(const struct scheduler *s, const struct scheduler_queue *own,
                            const struct scheduler_ahead *now);
