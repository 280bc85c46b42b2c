// A run that waits, in its own thread, until the loop lets it continue, or ends it.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool waits;
    atomic_bool stopped; // the run is to end; for npu_job.stop
};

void gate_init(struct gate *p);
void gate_done(struct gate *p);

/// A run begins.
void gate_start(struct gate *p);

/// Calls post(owner) and waits for gate_open(). False: the run is to end.
bool gate_wait(struct gate *p, void (*post)(void *owner), void *owner);

/// From any thread, once for each post(): the run continues, or (`stop`) ends. `stop` may come at
/// any time between gate_start() and the run's end.
void gate_open(struct gate *p, bool stop);
