// The program rknnd as a child of the test, which hears from it as a service manager would.
#pragma once

#include <sys/types.h>

#include "tests/integration/server/peer.h"

struct daemon_child {
    pid_t pid;
    int notify; // what it says to the service manager
    int errors; // its standard error
    char folder[64], path[96];
};

/// A folder for its sockets; path is one in it.
void daemon_init(struct daemon_child *d);
void daemon_done(struct daemon_child *d);

/// Starts it with these arguments (ended by NULL) and backend null. `fd` (or -1) becomes its fd 3;
/// with `activate` as a socket of the service manager.
void daemon_start(struct daemon_child *d, const char *const *arguments, int fd, bool activate);

/// Waits until it has said `word` to the service manager.
void daemon_wait_for(struct daemon_child *d, const char *word);

/// Waits for its end; the exit code, or minus the signal. `errors`: what it wrote, cut to size.
int daemon_wait(struct daemon_child *d, char *errors, size_t size);
