// What the runners of one daemon share, and what they tell their owner.
#pragma once

#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "server/jobs/buffer.h"
#include "worker/sandbox/sandbox_policy.h"

struct trace;

// Stays, with all it points to, until the loop has closed the last handle.
struct runner_options {
    uv_loop_t *loop;
    bool threads;                // --isolation=thread
    const char *backend;         // "sim"
    const char *backend_options; // "rk3588"
    const char *module_dir;      // folder of npu-BACKEND.so
    const char *plugin_dir;      // custom operators; "": none
    enum sandbox_mode sandbox;   // of worker processes
    struct sandbox_user worker_user;
    uint32_t load_timeout_ms; // a worker that takes longer is killed
    uint32_t job_timeout_ms;  // default deadline of a job, counted from its start
    // Of the server, kept by the runners too.
    struct runner_counters *counters;
    struct trace *trace;
};

// Counts of all runners; the daemon reads them. Loop thread only.
struct runner_counters {
    uint32_t workers;        // processes that exist
    uint32_t hoarders;       // of them, killed while they had all threads, and not gone yet
    uint64_t worker_threads; // that a worker is counted for
    uint64_t worker_deaths, jobs_retried;
    struct buffer_totals buffers;
    uint64_t replaced_ms;  // uv_now() of the turn that last started a dead worker's successor
    struct list queries;   // runner_probe() and runner_describe() that are not answered yet
    struct list processes; // that are not killed
};

struct runner_events {
    /// Loaded; or not (e != NULL), and then the runner is only good for runner_free(): a worker
    /// that dies while it loads is replaced once, one that takes longer than load_timeout_ms is
    /// not.
    void (*on_loaded)(void *owner, const struct error *e);
    /// After that: the worker has died, or is gone for good, and what is submitted has to wait; or
    /// waits no longer. NULL: nobody wants to know.
    void (*on_ready)(void *owner, bool ready);
};
