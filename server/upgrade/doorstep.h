// Connections whose first message is looked at before anybody reads it: while an older daemon
// serves its sessions to their end, some of the connections that arrive here belong to these.
#pragma once

#include <uv.h>

#include "base/list.h"
#include "protocol/message.h"
#include "server/listen/origin.h"

// Embedded by its owner. Loop thread only.
struct doorstep {
    uv_loop_t *loop;
    struct list all; // the one that has waited longest first
    unsigned n;
    int set; // an epoll set of those that wait; -1: none has waited yet
    uv_poll_t poll;
    uv_timer_t timer; // for the first
    /// Takes over `fd`, of which nothing has been read. `hello` NULL: it did not say HELLO in time.
    void (*decide)(struct doorstep *d, int fd, const struct origin *origin,
                   const rknnd_Hello *hello);
};

/// The caller sets decide().
void doorstep_init(struct doorstep *d, uv_loop_t *loop);

/// Takes over a connected socket; decide() follows, at once where there is no room.
void doorstep_wait(struct doorstep *d, int fd, const struct origin *origin);

/// Closes those that are waiting.
void doorstep_close(struct doorstep *d);
