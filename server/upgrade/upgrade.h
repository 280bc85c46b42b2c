// The old daemon's side of an upgrade (handover.h): SIGUSR2 starts the program at this one's path,
// which takes the sockets over; this one serves its sessions to their end.
//
//   NONE ──► STARTING ── READY ──► GIVING ── SERVING ──► DONE
//     ▲         │                    │
//     └─────────┴────────────────────┘ the new one has ended: all goes on as before
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "server/metrics/metrics_counts.h"
#include "server/runner/child.h"

struct connections;
struct http;
struct listeners;
struct notify;
struct options;
struct sessions;
struct succession;

enum upgrade_state { UPGRADE_NONE, UPGRADE_STARTING, UPGRADE_GIVING, UPGRADE_DONE };

// Embedded by the server, which sets the pointers. Loop thread only.
struct upgrade {
    uv_loop_t *loop;
    const struct options *options;
    struct listeners *listeners;
    struct http *http;
    struct sessions *sessions;
    const struct connections *connections;
    struct notify *notify;
    struct succession *before; // this daemon's own predecessor
    /// Another daemon has the sockets: serves what is there, and then ends.
    void (*retire)(struct upgrade *u, pid_t to);
    /// Serves a connection to one of the sessions (taken over).
    void (*take)(struct upgrade *u, int fd);

    enum upgrade_state state;
    bool stopped;
    char program[4096]; // what this one was started from; whatever is there by now is started
    int fd;             // -1: nobody to talk to
    bool watched;
    uv_poll_t poll;
    uv_timer_t patience;
    struct child child;
    bool has_child;
    bool counts_wanted;           // by the new one
    bool unread_wanted;           // the same
    struct metrics_counts counts; // its `services` are the server's to set
};

/// Before the file that this process runs can be replaced.
void upgrade_init(struct upgrade *u, uv_loop_t *loop);

/// Starts the new daemon. What comes of it is logged.
void upgrade_begin(struct upgrade *u);

/// Gives a connection that another process should have to the successor. False: there is none, and
/// it stays the caller's.
bool upgrade_pass_back(struct upgrade *u, int fd);

/// A passed_teller (clients/passed.h): tells the successor.
bool upgrade_tell_unread(void *upgrade, int socket, uint64_t n);

/// Ends one that is under way, with its process. Safe to repeat.
void upgrade_close(struct upgrade *u);
