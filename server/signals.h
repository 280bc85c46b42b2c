// The signals that end a daemon, and those that make it read its configuration again or give its
// place to another.
#pragma once

#include <uv.h>

#define SIGNALS 4

struct signals {
    uv_signal_t handles[SIGNALS];
    void (*ended)(void *owner);   // each time SIGTERM or SIGINT comes
    void (*hung_up)(void *owner); // each time SIGHUP comes
    void (*upgrade)(void *owner); // each time SIGUSR2 comes
    void *owner;
};

/// Watches them, without keeping the loop alive.
void signals_init(struct signals *s, uv_loop_t *loop, void (*ended)(void *owner),
                  void (*hung_up)(void *owner), void (*upgrade)(void *owner), void *owner);

/// Stops watching. Signals that come from now on, while the process ends, do nothing.
void signals_close(struct signals *s);
