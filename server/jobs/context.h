// A context: one client's use of a model.
#pragma once

#include "server/jobs/binding.h"
#include "server/models/model.h"
#include "server/net/request.h"
#include "server/scheduler/scheduler.h"

struct connection;
struct job_timer;
struct options;
struct session;
struct sram;

// All contexts of a daemon. Embedded by the server.
struct contexts {
    struct list all; // also closed ones on which something still runs
    unsigned n;
    const struct options *options;
    struct scheduler *scheduler;
    struct job_timer *timer;
    struct sram *sram; // that models use
    struct metrics *metrics;
};

// What is under way in a context: a job, or a request for layer times. Embedded by it.
struct context_work {
    struct list link; // in the context
    /// The context closes.
    void (*closed)(struct context_work *w, const struct error *why);
};

struct context {
    struct request opening; // CONTEXT_OPEN or CONTEXT_DUP
    struct list link;       // in the connection that opened it
    struct list link_all;   // in contexts->all
    struct contexts *contexts;
    struct connection *connection; // NULL: closed
    struct session *session;       // one reference
    struct model *model;           // one reference
    struct model_use use;
    struct runner_context *runner;
    uint64_t handle; // 0: not open yet
    uint32_t flags;  // RKNN_FLAG_*
    struct scheduler_queue queue;
    struct metrics_series *series; // where its runs count; NULL: nowhere
    uint64_t sram;                 // bytes of it that are the context's
    uint64_t charged;              // bytes that the runner's part of it takes, in the account
    struct binding *binding;       // NULL: nothing is bound
    struct list jobs;              // context_work: all of them
    struct list profiles;          // context_work: layer times that are asked for
    struct {
        uint64_t job, started_us;
        uint32_t cores;
    } profiled; // the last job whose layers were measured and not yet asked for; job 0: none
    unsigned n_running; // jobs that the device has; they keep a closed context
};

/// Starts opening a context on the connection; the request `h` is answered when it is done. Takes
/// no reference of the caller's.
int context_open(struct contexts *all, struct connection *c, const struct frame_header *h,
                 struct model *m, uint32_t flags, struct error *e);

/// Ends it: jobs that wait, and clients that wait, are told. What the device is running it
/// finishes first; then the context is freed.
void context_close(struct context *x);

/// Keeps the jobs of all contexts of the model off the device, or lets them run again.
void contexts_hold(struct contexts *all, const struct model *m, bool held);

/// Frees a closed context as soon as nothing runs on it.
void context_check_idle(struct context *x);
