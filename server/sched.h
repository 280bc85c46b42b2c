// The scheduler: which waiting job runs next, on which cores. Pure logic, no I/O, no clock of its
// own; the server tells it what happens and what time it is (any clock that does not go back).
//
// Between priorities: the higher first, with aging. A priority that has work and was not served for
// aging_us counts as one step higher, after twice that as two; so under a flood of high-priority
// jobs a lower one gets a job through now and then: it is late, never starved, and never a flood.
//
// Inside one priority: the client that has had the least device time for its weight goes first, so
// that ten greedy contexts of one client get what one polite context of another gets. A client that
// was away gets no credit for it.
//
// Jobs of one context run in order, one at a time. No core is idle while a job that waits would
// fit, with one exception: when the job whose turn it is (say, one that wants three cores at once)
// has been blocked by busy cores for patience_us, the cores it wants are kept for it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define SCHED_MAX_CORES  8
#define SCHED_PRIORITIES 3 // RKNN_FLAG_PRIOR_HIGH, MEDIUM, LOW

// What one client has had in one priority.
struct sched_share {
    uint64_t used;     // core-time for its weight: us * cores * SCHED_UNIT / weight
    unsigned n_active; // jobs that wait or run
};

#define SCHED_UNIT 1024

// One who shares the device: a session. Embedded by its owner.
struct sched_client {
    uint32_t weight; // 1..SCHED_UNIT
    unsigned n_waiting, n_running;
    uint64_t core_us; // device time had, all in all
    struct sched_share share[SCHED_PRIORITIES];
};

// The order of one context's jobs. Embedded by its owner.
struct sched_queue {
    struct list jobs; // waiting, in order
    struct list link; // in the scheduler while something waits and nothing runs
    struct sched_client *client;
    uint8_t priority;
    bool running;
};

// One job's place. Embedded by its owner.
struct sched_job {
    struct list link; // in its queue while waiting, in the scheduler while running
    struct sched_queue *queue;
    uint32_t wanted; // cores, all at once; 0: any one core
    uint32_t placed; // cores it runs on; 0: waiting
    uint64_t waiting_since_us, started_us;
    uint64_t charged_us; // its time is accounted up to here
    uint64_t blocked_us; // its turn came then, but its cores were busy
    bool blocked;
};

struct sched_class {
    struct list ready; // queues
    unsigned n_waiting;
    uint64_t served_us; // when its last job started, or its first one came
    uint64_t clock;     // sched_share.used of whom it served last: where newcomers start
};

struct sched {
    uint32_t n_cores;
    uint32_t busy; // core mask
    struct sched_class classes[SCHED_PRIORITIES];
    struct list running;
    struct sched_job *reserving; // the job that cores are kept for
    uint32_t aging_us;           // 0: none. Both may be changed at any time
    uint32_t patience_us;
    unsigned n_waiting, n_running;
};

void sched_init(struct sched *s, uint32_t n_cores); // 1..SCHED_MAX_CORES
void sched_client_init(struct sched *s, struct sched_client *c, uint32_t weight);
void sched_client_done(struct sched *s, struct sched_client *c); // nothing waits, nothing runs
void sched_queue_init(struct sched_queue *q, struct sched_client *c, uint8_t priority);

/// False: no core of `wanted` exists on this device. (Cores that do not exist are ignored beside
/// others that do: ALL means all there are.)
bool sched_can(const struct sched *s, uint32_t wanted);

/// Puts a job, for which sched_can(), at the end of its queue.
void sched_add(struct sched *s, struct sched_job *j, struct sched_queue *q, uint32_t wanted,
               uint64_t now_us);

/// The next job to start, with `placed` set and its cores taken; NULL when nothing can start now.
/// To be called until NULL after each add, end and remove. Takes time in proportion to the number
/// of contexts with waiting jobs, none when every core is busy.
struct sched_job *sched_next(struct sched *s, uint64_t now_us);

/// A started job has ended (whatever came of it); its cores are free and its time is accounted.
void sched_end(struct sched *s, struct sched_job *j, uint64_t now_us);

/// Takes a waiting job out.
void sched_remove(struct sched *s, struct sched_job *j);
