// A child process of the loop. Unlike uv_spawn() its start copies no page tables and runs no
// handlers of fork(): the loop's thread waits only until the child has come to its exec().
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

// Embedded by its owner until on_closed. Loop thread only.
struct child {
    uv_signal_t watch;                                     // for SIGCHLD
    char *const *environment;                              // NULL: ours
    pid_t pid;                                             // 0: it never started
    void (*exited)(struct child *c, int code, int signal); // once; one of them is 0
    void (*closed)(struct child *c);
};

/// Starts `program` with these arguments (ended by NULL) and c->environment, which is set before.
/// Its standard input is empty, standard output and error are `log_fd`, and descriptor 3 is `fd`;
/// it has no other that is not meant to be inherited. Signals are as a process finds them at first.
/// Whatever the outcome, child_close() must follow.
int child_start(struct child *c, uv_loop_t *loop, const char *program, char *const args[], int fd,
                int log_fd, void (*exited)(struct child *c, int code, int signal), struct error *e);

/// SIGKILL, if it runs.
void child_kill(struct child *c);

/// Ends the watch; exited() is not called any more.
void child_close(struct child *c, void (*closed)(struct child *c));
