// The scheduler: which waiting job runs next, on which cores. Pure logic, no I/O, no clock of its
// own; the server tells it what happens.
//
// Between priorities: higher first, with aging. Inside one priority: the client that has had the
// least time (weighted) goes first, so that ten greedy contexts of one client get what one polite
// context of another gets. Jobs of one context run in order, one at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define SCHED_MAX_CORES  8
#define SCHED_PRIORITIES 3 // RKNN_FLAG_PRIOR_HIGH, MEDIUM, LOW

// One who shares the device: a session. Embedded by its owner.
struct sched_client {
    struct list link;
    uint64_t used_us; // weighted time had, in the scheduler's virtual clock
    uint32_t weight;  // 1..
    unsigned n_waiting, n_running;
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
    struct list link;
    struct sched_queue *queue;
    uint32_t wanted; // core mask; 0: any one core
    uint32_t placed; // cores it runs on
    uint64_t waiting_since_us, started_us;
};

struct sched {
    uint32_t n_cores;
    uint32_t busy;     // core mask
    uint64_t clock_us; // virtual
    struct list clients;
    struct list ready[SCHED_PRIORITIES];
    uint32_t aging_us; // waiting this long lifts a job by one priority
    unsigned n_waiting, n_running;
};

void sched_init(struct sched *s, uint32_t n_cores);
void sched_client_init(struct sched *s, struct sched_client *c, uint32_t weight);
void sched_client_done(struct sched *s, struct sched_client *c); // nothing waits, nothing runs
void sched_queue_init(struct sched_queue *q, struct sched_client *c, uint8_t priority);

/// False: no core of `wanted` exists on this device.
bool sched_can(const struct sched *s, uint32_t wanted);

/// Puts a job at the end of its queue.
void sched_add(struct sched *s, struct sched_job *j, struct sched_queue *q, uint32_t wanted,
               uint64_t now_us);

/// The next job to start, with `placed` set and its cores taken; NULL when nothing can start now.
/// To be called until NULL after each add and each end.
struct sched_job *sched_next(struct sched *s, uint64_t now_us);

/// A started job has ended (whatever came of it); its cores are free and its time is accounted.
void sched_end(struct sched *s, struct sched_job *j, uint64_t now_us);

/// Takes a waiting job out.
void sched_remove(struct sched *s, struct sched_job *j);
