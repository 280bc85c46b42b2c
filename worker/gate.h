// A run that waits, in its own thread, until the loop lets it go on, or that the loop ends.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct pause {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool waits;
    atomic_bool stopped; // the run is to end; for npu_job.stop
};

void pause_init(struct pause *p);
void pause_done(struct pause *p);

/// A run begins.
void pause_start(struct pause *p);

/// Calls post(owner) and waits for pause_end(). False: the run is to end.
bool pause_wait(struct pause *p, void (*post)(void *owner), void *owner);

/// From any thread, once for each post(): the run goes on, or (`stop`) ends. `stop` may come at any
/// time between pause_start() and the run's end.
void pause_end(struct pause *p, bool stop);
