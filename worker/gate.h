// A run that waits, in its own thread, until the loop lets it continue, or ends it.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "npu/npu.h"

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

// A run that lends its cores to others between two of its slices: asked from outside, it waits at
// its gate.
struct run_slices {
    struct npu_slices npu;
    atomic_bool wanted;
    struct gate *gate;
    void (*post)(struct run_slices *s);
};

/// A run begins, whose slices take about `us`. post() comes from the run's thread when it waits at
/// the gate.
void run_slices_start(struct run_slices *s, uint32_t us, struct gate *gate,
                      void (*post)(struct run_slices *s));

/// Asks the run to wait at the end of its slice. From any thread, after run_slices_start().
void run_slices_ask(struct run_slices *s);
