// The signals that end a daemon.
#pragma once

#include <uv.h>

struct signals {
    uv_signal_t handles[2];
    void (*ended)(void *owner); // each time one comes
    void *owner;
};

/// Watches SIGTERM and SIGINT, without keeping the loop alive.
void signals_init(struct signals *s, uv_loop_t *loop, void (*ended)(void *owner), void *owner);

/// Stops watching. Signals that come from now on, while the process ends, do nothing.
void signals_close(struct signals *s);
