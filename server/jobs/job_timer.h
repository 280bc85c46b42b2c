// When jobs have to be looked at again although nothing has come: at their deadlines, and when one
// that left the queue has made room for another. Loop thread only.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

// A job's deadline. Embedded by the job.
struct job_deadline {
    struct list link;
    uint64_t at_ms; // uv_now()
};

struct job_timer {
    uv_timer_t timer;
    struct list deadlines; // in any order
    uint64_t alarm_ms;     // when the timer goes off
    bool fires;            // it is at work
    /// The deadline has passed; it is out of the timer. Of many that are over at the same time some
    /// come now, and some in each of the next milliseconds.
    void (*expired)(struct job_deadline *d);
    /// The timer has gone off, and what has expired has been told.
    void (*woken)(struct job_timer *t);
};

/// Closed by uv_close() on its timer.
void job_timer_init(struct job_timer *t, uv_loop_t *loop, void (*expired)(struct job_deadline *d),
                    void (*woken)(struct job_timer *t));

/// expired(d) comes in `limit_ms`, unless list_remove(&d->link) comes before.
void job_timer_set(struct job_timer *t, struct job_deadline *d, uint32_t limit_ms);

/// Every deadline of now is in `limit_ms` at the latest.
void job_timer_hurry(struct job_timer *t, uint32_t limit_ms);

/// woken() comes soon, from the loop.
void job_timer_wake(struct job_timer *t);
