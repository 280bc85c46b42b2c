// The signals that end a daemon, and those that make it read its configuration again or give its
// place to another.
#pragma once

#include <uv.h>

#include "base/error.h"

struct signals {
    uv_poll_t poll;
    int fd;
    void (*ended)(void *owner);   // when SIGTERM or SIGINT comes
    void (*hung_up)(void *owner); // when SIGHUP comes
    void (*upgrade)(void *owner); // when SIGUSR2 comes
    void *owner;
};

/// For the very start of a process: SIGHUP and SIGUSR2 wait until they are watched, and no other
/// signal does, whatever was blocked before.
void signals_hold(void);

/// Watches all four, whose functions are in `s`, without keeping the loop alive. Before there are
/// threads. Returns 0, or a negative status with words, and `s` is not to be closed.
int signals_init(struct signals *s, uv_loop_t *loop, struct error *e);

/// Stops watching. Signals that come from now on, while the process ends, do nothing.
void signals_close(struct signals *s);
