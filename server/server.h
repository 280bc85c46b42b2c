// The daemon: its parts, and its life. Several can live in one process.
//
//     server_init()          the backend has answered          server_drain()
//          v                           v                             v
//      STARTING -----------------> SERVING --------------------> DRAINING
//          |                           | RETIRING: another daemon      |
//          |                           |    has the sockets            | nothing is left to do,
//          | cannot serve              | server_stop()               v or drain_timeout_ms
//          +---------------------------+-------------------------> STOPPED
#pragma once

#include <uv.h>

#include "server/clients/arrivals.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/config/reload.h"
#include "server/handle/handle.h"
#include "server/handle/handle_memory.h"
#include "server/handle/handle_stats.h"
#include "server/handle/services.h"
#include "server/handle/stored/handle_stored_list.h"
#include "server/heap.h"
#include "server/jobs/context.h"
#include "server/jobs/giveback.h"
#include "server/jobs/job.h"
#include "server/jobs/memory.h"
#include "server/jobs/sram_use.h"
#include "server/listen/addresses.h"
#include "server/listen/announce.h"
#include "server/listen/listener.h"
#include "server/metrics/http_process.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_share.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/modules.h"
#include "server/net/connection.h"
#include "server/net/transport_secure.h"
#include "server/notify.h"
#include "server/observe/logbook.h"
#include "server/observe/readings.h"
#include "server/observe/trace.h"
#include "server/shelf/shelf.h"
#include "server/shelf/shelf_pins.h"
#include "server/turns.h"
#include "server/upgrade/succession.h"
#include "server/upgrade/upgrade.h"

enum server_state {
    SERVER_STARTING, // asks the backend what it is
    SERVER_SERVING,
    SERVER_RETIRING, // the same, for those who are there (upgrade/upgrade.h)
    SERVER_DRAINING, // takes nothing new, finishes what runs
    SERVER_STOPPED,  // everything is being closed
};

// Owns the parts, and connects those that must not know each other. Loop thread only.
struct server {
    uv_loop_t *loop;
    struct options *options; // changed by server_reload()
    enum server_state state;
    struct error failed; // why it stopped by itself; code 0: it did not
    char module_dir[MODULES_DIR_SIZE];
    struct npu_device_info device;
    struct runner_options runner_options;
    struct runner_counters counters;

    // Where clients arrive, and who they are.
    struct listeners listeners;
    struct addresses addresses; // where they listen
    struct reload reload;
    struct announce announce;
    struct succession succession;
    struct upgrade upgrade;
    struct tls_door tls;
    struct connections connections;
    struct sessions sessions;
    struct users users;
    struct identities identities;
    struct arrivals arrivals;
    struct accounts accounts;
    gid_t groups[ORIGIN_SOCKET_GROUP + 1]; // that origins are asked about

    // What they use.
    struct store store;
    struct uploads uploads;
    struct shelf shelf;
    struct shelf_pins pins;
    struct memories memories;
    struct sram sram;
    struct contexts contexts;
    struct jobs jobs;
    struct givebacks givebacks;
    struct imports imports;
    struct creations creations;
    struct describes describes;
    struct services services; // all of these, for handlers

    // What others see of it.
    struct turns turns;
    struct stats stats;
    struct stored_list stored_list;
    struct heap heap;
    struct metrics metrics;
    struct metrics_share metrics_share;
    struct http http;
    struct logbook logbook;
    struct trace trace;
    struct readings readings;
    struct notify notify;

    uv_work_t no_work;
    uint64_t swept_ms; // uv_now()
    uv_timer_t sweep;  // heartbeats and timeouts of everything
    struct rounds_line sweep_line;
    struct rounds_place sweep_place;
    uv_timer_t drain;
};

/// Opens the sockets that the options name, or those that systemd passed, and asks the backend what
/// it is; from then on everything happens on the loop. `options` must stay. On failure nothing is
/// left but handles that the loop still has to close.
int server_init(struct server *s, uv_loop_t *loop, struct options *options, struct error *e);

/// Reads the configuration again, on a thread; what can change while the server runs does then.
/// Sessions and what they hold stay. Not while it starts or ends.
void server_reload(struct server *s);

/// Starts the program anew, and gives it the sockets. Not while it starts or ends.
void server_upgrade(struct server *s);

/// Takes no new work, says goodbye, finishes what runs (at most drain_timeout_ms) and stops.
void server_drain(struct server *s);

/// Closes everything now. uv_run() returns when it is done. Safe to repeat.
void server_stop(struct server *s);

/// After the loop has run out.
void server_done(struct server *s);

/// Serves a connected stream socket (taken over).
void server_take(struct server *s, int fd, const struct origin *origin);

// ---- between server.c and server_*.c ------------------------------------------------------------

/// Part of the start; cannot fail.
void server_init_sweep(struct server *s);

/// Before its connections are closed or after. It may be closed once.
void server_close_sweep(struct server *s);

/// There is a connection to look at.
void server_start_sweep(struct server *s);

/// Part of the start; cannot fail.
void server_init_upgrade(struct server *s);

/// The sockets of the daemon before, and those that are new in the options.
int server_take_listeners_over(struct server *s, struct error *e);

/// Ends a retired server that nobody uses any more.
void server_check_retired(struct server *s);

// server_upgrade.c: what one that has retired tells its successor of descriptors that are not read
// (clients/passed.h); of one connection, and of those that have ended.
void server_tell_unread(struct server *s, struct connection *c);
void server_tell_left(struct server *s);

/// Accepts connections from here on.
void server_begin(struct server *s);

/// Ends it soon, with these words, as it cannot begin.
void server_fail_to_start(struct server *s, const struct error *e);

/// Tells the service manager what is served.
void server_tell_manager(struct server *s);

/// Part of the start; cannot fail: listeners, none of them open, and what comes from them.
void server_init_arrivals(struct server *s);

/// What parts keep of the options that can change. Again when the device is known, by which some
/// go.
void server_copy_options(struct server *s);

/// The groups that matter, of the rules of rights; and at the start those of the sockets, too.
void server_copy_groups(struct server *s);
void server_find_groups(struct server *s);

/// What all clients together may hold: as the options say, or a part of what the machine has.
void server_set_limits(struct server *s);

/// Part of the start; cannot fail.
void server_init_reload(struct server *s);

/// Stops one that drains and has nothing left to do.
void server_check_drained(struct server *s);
