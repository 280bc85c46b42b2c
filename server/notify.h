// The service manager's side channel: readiness, status and watchdog (sd_notify(3)), and the
// sockets it passes (sd_listen_fds(3)). The protocols are small and stable, so no library is
// needed.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"

struct notify {
    char socket[108]; // "": there is no manager
    uv_timer_t watchdog;
    bool open;
};

/// Reads NOTIFY_SOCKET and WATCHDOG_USEC. A watchdog is told at half its interval, from the loop.
int notify_init(struct notify *n, uv_loop_t *loop, struct error *e);
void notify_close(struct notify *n);

/// The service manager has another main process now: it is told nothing more.
void notify_leave(struct notify *n);

/// Sends lines ("READY=1\nSTATUS=…"); losing them is not an error.
void notify_send(struct notify *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// How many sockets were passed to this process: fds NOTIFY_FIRST_FD and following, made
/// close-on-exec. The variables are removed, so that children do not see them.
#define NOTIFY_FIRST_FD 3
int notify_take_sockets(void);
