// A device of cores and clients in simulated time, to try the scheduler on. Every step checks the
// rules of scheduler.h; what breaks one fails the test.
#pragma once

#include "server/scheduler/scheduler.h"

#define MAX_QUEUES 48
#define MAX_JOBS   64 // of one queue, waiting and running

struct sim_job {
    struct scheduler_job job;
    unsigned number; // in its queue
    struct scheduler_cores wanted;
    uint64_t length_us, added_us;
    bool waiting, running, interrupted;
    uint64_t ends_us, yields_us; // yields_us 0: it was not asked to
};

struct sim_queue {
    struct scheduler_queue queue;
    unsigned client;
    bool greedy; // always has `depth` jobs
    unsigned depth;
    struct scheduler_cores wanted;
    uint64_t length_us; // 0: random
    unsigned n_added, n_started, n_done, n_removed;
    uint64_t longest_wait_us;
    struct sim_job jobs[MAX_JOBS];
};

struct sim {
    struct scheduler scheduler;
    uint64_t now_us, max_length_us;
    uint32_t slice_us; // after which jobs that are asked yield at the latest; 0: they do not
    uint32_t random;
    unsigned n_clients, n_queues, n_cores;
    uint32_t busy;
    struct scheduler_group groups[MAX_QUEUES]; // by client
    struct scheduler_client clients[MAX_QUEUES];
    struct sim_queue queues[MAX_QUEUES];
};

/// Below n, from the simulation's own numbers.
uint32_t sim_random_below(struct sim *s, uint32_t n);

struct sim *sim_new(unsigned n_cores, uint32_t seed);

/// A client of a group, or in a group of its own. Returns its index.
unsigned sim_add_client_of(struct sim *s, struct scheduler_group *g);
unsigned sim_add_client(struct sim *s, uint32_t weight);

/// A context of the client; `greedy` ones always have jobs.
struct sim_queue *sim_add_queue(struct sim *s, unsigned client, uint8_t priority, bool greedy);
void sim_add_job(struct sim *s, struct sim_queue *q, struct scheduler_cores wanted);

/// Starts what can start now.
void sim_pump(struct sim *s);

/// Goes on until end_us; jobs that run then go on running.
void sim_run_until(struct sim *s, uint64_t end_us);

/// Finishes all jobs, checks that nothing is left, and frees the simulation.
void sim_drain(struct sim *s);

/// Part of the device's time that a client has had.
double sim_share(const struct sim *s, unsigned client);
