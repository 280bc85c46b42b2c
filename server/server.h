// The daemon: what all its connections share. Several can live in one process.
#pragma once

#include <uv.h>

#include "server/handle/stats.h"
#include "server/jobs/job_timer.h"
#include "server/jobs/memory.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/sram_use.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/net/announce.h"
#include "server/net/listener.h"
#include "server/net/user.h"
#include "server/notify.h"
#include "server/observe/logbook.h"
#include "server/observe/trace.h"
#include "server/options.h"
#include "server/runner/runner.h"

enum server_state {
    SERVER_STARTING, // asks the backend what it is
    SERVER_SERVING,
    SERVER_DRAINING, // takes nothing new, finishes what runs
    SERVER_STOPPED,  // everything is being closed
};

struct server {
    uv_loop_t *loop;
    const struct options *options;
    enum server_state state;
    struct error failed; // why it stopped by itself; code 0: it did not
    struct runner_options runner_options;
    struct runner_counters counters;
    struct npu_device_info device;
    char module_dir[4096];

    struct listeners listeners;
    struct announce announce;
    struct list connections;
    struct list sessions;
    struct list users;
    struct list contexts;  // also closed ones on which something still runs
    struct list describes; // descriptions of models that are asked for, in order
    unsigned n_connections, n_sessions, n_contexts;
    uint32_t next_connection;
    uint64_t next_job, next_session;
    struct store store;
    struct uploads uploads;
    struct memories memories;
    struct sram sram; // that models use
    struct scheduler scheduler;
    struct job_timer job_timer;
    bool scheduling;
    uint64_t jobs_done, jobs_failed;

    struct stats stats;
    struct logbook logbook;
    struct trace trace;
    struct notify notify;
    uint64_t started_ms, swept_ms; // uv_now()
    uv_timer_t sweep;              // heartbeats and timeouts of everything
    uv_timer_t drain;
};

/// Opens the sockets that the options name, or those that systemd passed, and asks the backend what
/// it is; from then on everything happens on the loop. `options` must stay. On failure nothing is
/// left but handles that the loop still has to close.
int server_init(struct server *s, uv_loop_t *loop, const struct options *options, struct error *e);

/// Takes no new work, says goodbye, finishes what runs (at most drain_timeout_ms) and stops.
void server_drain(struct server *s);

/// Closes everything now. uv_run() returns when it is done. Safe to repeat.
void server_stop(struct server *s);

/// After the loop has run out.
void server_done(struct server *s);

/// Serves a connected stream socket (taken over).
void server_take(struct server *s, int fd, const struct origin *origin);

/// While draining: stops when nothing is left to wait for.
void server_check_drained(struct server *s);

/// The largest number of bytes that model files may take together.
uint64_t server_max_models_size(const struct server *s);
