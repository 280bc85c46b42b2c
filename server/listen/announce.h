// Announces this server on the network (--announce). A process of its own does it (rknnd-announce),
// because Avahi's library waits for D-Bus.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "server/listen/listener.h"
#include "server/runner/worker_log.h"

struct announce {
    uv_process_t process;
    struct worker_log log;
    int tether; // the process ends when this is closed
    bool running, ending;
};

/// Whether there is an address that others can reach; words say what to do.
int announce_check(const struct listeners *l, struct error *e);

/// Starts it, with the program in `folder`. What it does not manage, it logs. The struct stays
/// until the loop has run out.
int announce_start(struct announce *a, uv_loop_t *loop, const char *folder, const char *chip,
                   const struct listeners *l, struct error *e);

/// Takes the announcement back. Safe to repeat, and when nothing was started.
void announce_close(struct announce *a);
