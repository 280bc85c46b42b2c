// A child process of the loop. Unlike uv_spawn() its start copies no page tables and runs no
// handlers of fork(): the loop's thread waits only until the child has come to its exec(), or not
// even that.
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

// Embedded by its owner until on_closed. Loop thread only.
struct child {
    uv_signal_t watch;                                     // for SIGCHLD
    pid_t pid;                                             // 0: it never started
    void *stack;                                           // of child_start_soon()
    void (*exited)(struct child *c, int code, int signal); // once; one of them is 0
    void (*closed)(struct child *c);
};

// Whether child_start_soon() is as child_start(): sanitizers follow each thread by what the child
// would have of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHILD_ALWAYS_WAITS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHILD_ALWAYS_WAITS 1
#endif
#endif
#ifndef CHILD_ALWAYS_WAITS
#define CHILD_ALWAYS_WAITS 0
#endif

// What a child is to be.
struct child_words {
    const char *program;
    char *const *args;        // ended by NULL
    char *const *environment; // NULL: ours
    int fd, log_fd;
    void (*exited)(struct child *c, int code, int signal);
};

/// child_close() must follow.
void child_init(struct child *c, uv_loop_t *loop);

/// Starts a program. Its standard input is empty, standard output and error are `log_fd`, and
/// descriptor 3 is `fd`; it has no other that is not meant to be inherited. Signals are as a
/// process finds them at first. STATUS_MALLOC_FAIL: there are no more processes and threads to be
/// had now. What has failed may be tried again.
int child_start(struct child *c, const struct child_words *w, struct error *e);

/// The same for a program that is there. Waits for nothing, unless this process is traced: program,
/// arguments and environment have to stay until child_close(), which comes when the child has
/// ended. One that could not be executed ends with exit code 127.
int child_start_soon(struct child *c, const struct child_words *w, struct error *e);

/// SIGKILL, if it runs.
void child_kill(struct child *c);

/// Ends the watch; exited() is not called any more.
void child_close(struct child *c, void (*closed)(struct child *c));
