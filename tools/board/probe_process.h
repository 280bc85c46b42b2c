// A part of the kit in a process of its own, which is ended when it takes too long.
#pragma once

#include <jansson.h>
#include <stdint.h>

enum watch_end {
    WATCH_DONE,
    WATCH_DIED,    // by a signal, or without an answer
    WATCH_LATE,    // it took longer than it may, and has been ended
    WATCH_STUCK,   // … and does not end: a driver holds it
    WATCH_STOPPED, // Ctrl-C
};

struct watched {
    enum watch_end end;
    int signal;     // WATCH_DIED: by which; 0: none
    uint64_t ns;    // that it took
    json_t *answer; // WATCH_DONE: the caller's
};

/// What runs there; its answer (NULL: none) is sent back.
typedef json_t *watch_function(void *user);

/// Runs it in a child, in a process group of its own, for at most limit_ms. Its standard error goes
/// to log_fd. Nothing of the caller's memory changes.
struct watched watch_run(watch_function *run, void *user, uint32_t limit_ms, int log_fd);
