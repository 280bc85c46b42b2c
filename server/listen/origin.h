// Where a connection comes from.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

// Who is at the other end of a connection, as the kernel says.
struct origin {
    bool local;  // a Unix socket: descriptors can pass
    bool remote; // another machine, by network: it may be gone without a word
    pid_t pid;   // of a local one, as uid
    uid_t uid;
    char text[64]; // for logs: "unix, pid 12, uid 1000"
};

/// Whether the program of a local one is stopped, by a debugger or a signal. (What is frozen with
/// its control group is not told apart from what sleeps.)
bool origin_is_stopped(const struct origin *o);

/// Root, or the user that the service runs as, on this machine.
bool origin_is_operator(const struct origin *o);
