// What a worker says on its standard output and error, as lines of the daemon's own log with the
// worker's name in front. Its own log lines bring their level (log_mark_levels()), and so do those
// of the vendor's runtime ("E RKNN: …"); what code of others prints counts as warnings.
//
// A worker that says too much is not read for a moment, and what it has said by then is left out,
// with a line that says so; it finds its pipe full meanwhile, which does not make it wait.
#pragma once

#include <uv.h>

#include "base/error.h"
#include "base/log_ring.h"

#define WORKER_LOG_LINES 200 // in a second

// Embedded by its owner. Loop thread only.
struct worker_log {
    uv_poll_t poll;
    uv_timer_t rest;
    int fd;
    char name[200];
    char line[LOG_RING_TEXT]; // that has begun
    size_t length;
    bool cut;            // it is longer than that
    unsigned budget;     // lines that may still come before second_ms is over
    uint64_t second_ms;  // when that began
    uint64_t n_left_out; // lines, since the last one that was logged
    unsigned n_handles;
    void (*closed)(struct worker_log *l);
};

/// Makes the pipe; *ret_far_end is for the worker.
int worker_log_init(struct worker_log *l, uv_loop_t *loop, int *ret_far_end, struct error *e);

/// What stands in front of each line, as soon as that is known.
void worker_log_set_name(struct worker_log *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// Logs what the worker has left and closes; closed() comes later.
void worker_log_close(struct worker_log *l, void (*closed)(struct worker_log *l));
