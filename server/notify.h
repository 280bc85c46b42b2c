// What the daemon and the relay have of the service manager besides base/net/manager.h: its
// watchdog, and the sockets that it passes (sd_listen_fds(3)).
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/net/manager.h"

struct notify {
    struct manager manager;
    uv_timer_t watchdog;
    bool open;
};

/// Finds the manager, and reads WATCHDOG_USEC. A watchdog is told at half its interval, from the
/// loop.
int notify_init(struct notify *n, uv_loop_t *loop, struct error *e);
void notify_close(struct notify *n);

/// The service manager has another main process now: it is told nothing more.
void notify_leave(struct notify *n);

/// How many sockets were passed to this process: fds NOTIFY_FIRST_FD and following, made
/// close-on-exec. The variables are removed, so that children do not see them.
#define NOTIFY_FIRST_FD 3
int notify_take_sockets(void);
