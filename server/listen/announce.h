// Announces this server on the network (--announce). A process of its own does it (rknnd-announce),
// because Avahi's library waits for D-Bus.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "server/listen/listener.h"
#include "server/runner/worker_log.h"

// Embedded by its owner; all zero: nothing was started.
struct announce {
    uv_loop_t *loop; // NULL: announce_start() was not called
    const char *folder, *chip;
    const struct listeners *listeners;
    uv_process_t process;
    uv_timer_t again; // until another one starts
    struct worker_log log;
    int tether;       // the process ends when this is closed
    unsigned n_open;  // of process and log, those that are not closed yet
    uint64_t wait_ms; // for `again`
    bool running, ending;
};

/// Whether there is an address that others can reach; words say what to do.
int announce_check(const struct listeners *l, struct error *e);

/// Starts it, with the program in `folder`, and again when it ends before announce_close(), ever
/// more seldom. What it does not manage, it logs. The struct, and what it is given, stay until the
/// loop has run out.
int announce_start(struct announce *a, uv_loop_t *loop, const char *folder, const char *chip,
                   const struct listeners *l, struct error *e);

/// Takes the announcement back. Safe to repeat, and when nothing was started.
void announce_close(struct announce *a);
