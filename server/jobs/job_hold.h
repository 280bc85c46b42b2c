// How long a run may have its cores while it waits for its client (a part of a dump, a call of a
// custom operator). After that it is suspended: others have the cores, and it has to wait for them
// again before it goes on. While others wait for cores, that is HOLD_WANTED_MS each time.
//
//                  job_hold_begin()             the answer: job_hold_end()
//     the run computes --------> HOLDS its cores -----------------------> the run computes
//          ^                        | no time left: suspend()
//          |                        v        job_hold_end()
//          |                    SUSPENDED ----------------> RESUMES: resume()
//          +-----------------------------------------------------+ job_hold_continue()
#pragma once

#include "server/jobs/job_timer.h"
#include "server/runner/runner.h"

// A program that answers at once, on this machine, is quicker.
#define HOLD_WANTED_MS 2

enum job_hold_state {
    HOLD_NOTHING, // the run does not wait for its client
    HOLD_CORES,
    HOLD_SUSPENDED, // neither computes nor has cores
    HOLD_RESUMES,   // has its answer, or has given way, and waits for cores
};

// Embedded by the job. Loop thread only.
struct job_hold {
    enum job_hold_state state;
    struct runner_job *run;
    struct job_timer *timer; // whose expired() is to call job_hold_expire()
    struct job_deadline deadline;
    uint64_t since_ms; // that it waits with cores
    uint32_t left_ms;  // of all its waiting with cores
    /// Others wait for cores.
    bool (*is_wanted)(const struct job_hold *h);
    /// The cores are to be given back, and the job may not go on without; or it may be ended, or
    /// have them for longer (job_hold_begin()). From the loop.
    void (*suspend)(struct job_hold *h);
    /// It wants them again: job_hold_continue() when it has them.
    void (*resume)(struct job_hold *h);
};

void job_hold_init(struct job_hold *h, struct runner_job *run, struct job_timer *timer,
                   uint32_t limit_ms);

/// The run waits for its client from now on.
void job_hold_begin(struct job_hold *h);

/// The client's answer is there: the run continues, now or when it has cores.
void job_hold_end(struct job_hold *h);

void job_hold_continue(struct job_hold *h);

/// Its time with cores is over.
void job_hold_expire(struct job_deadline *d);

/// The run has ended, or has been lost with its worker.
void job_hold_reset(struct job_hold *h);
