// HTTP for whoever watches the service: GET /metrics (Prometheus), /healthz (it answers), /readyz
// (it takes work). A process of its own speaks it (helpers/http), so that what peers send is not
// read here; it asks by a socket pair. If it ends, another one goes on with the same sockets.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/net/http_ask.h"
#include "base/net/unix_socket.h"
#include "server/net/snapshots.h"
#include "server/runner/child.h"
#include "server/runner/worker_log.h"

struct services;

struct http_socket {
    int fd;
    char *unlink_path; // NULL: not a Unix socket
    struct unix_file file;
};

// Embedded by the server. Loop thread only.
struct http {
    uv_loop_t *loop;
    const struct services *services;
    const char *folder; // of the program
    struct http_socket sockets[HTTP_MAX_SOCKETS];
    unsigned n_sockets;
    struct child child;
    struct worker_log log;
    int fd; // our end; -1: there is no process
    uv_poll_t poll;
    uv_timer_t again;
    struct snapshot_asker asker; // of a question for metrics
    uint32_t asked;              // its number
    unsigned n_open;             // of child, log and poll
    bool watched, ending, closed;
    bool lent; // another process has the sockets, too: their files stay
    /// The process has ended, as it was told to.
    void (*ended)(struct http *h);
};

/// The caller sets `ended`.
void http_init(struct http *h, uv_loop_t *loop, const struct services *services);

/// Listens at unix:PATH, or tcp:HOST:PORT on the loopback interface, unless `insecure`: who reads
/// this learns of users and models. May block: names are looked up.
int http_listen(struct http *h, const char *text, const char *socket_group, bool insecure,
                struct error *e);

/// Whether http_listen() may listen there, without doing so.
int http_check(const char *text, bool insecure, struct error *e);

/// Takes over a socket that listens, from the daemon before this one (upgrade/handover.h), which
/// has it, too, until http_own().
int http_take_over(struct http *h, int fd, const char *name, const char *unlink_path,
                   struct error *e);
void http_own(struct http *h);

/// Another daemon accepts at the sockets from now on, and has their files. Who is connected is
/// answered; then ended() follows, within seconds, unless there was no process.
void http_give_up(struct http *h);

/// Whether there is a process.
bool http_is_open(const struct http *h);

/// Serves, with the program in `folder`, which stays. Without addresses nothing happens.
int http_start(struct http *h, const char *folder, struct error *e);

/// The same, of what cannot fail any more: if it does, that is logged, and tried again.
void http_start_later(struct http *h, const char *folder);

/// Safe to repeat, and when nothing was started.
void http_close(struct http *h);
