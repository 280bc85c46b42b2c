// Private daemons: one with a backend of this process's choice, or a relay to a board at a USB
// cable, that belongs to this process.
//
// It is a separate process, takes its connections over a socket pair and ends when that closes:
// when its last connection here is freed, or when the process ends in whatever way; a relay, which
// serves other processes too, ends when they have gone as well. It is started through a short-lived
// child without an exit signal, so the program's SIGCHLD handling and wait() calls never see either
// of them. Nothing of the program is inherited but the environment and standard error.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct spawn {
    pthread_mutex_t lock;
    int control;        // the socket over which connections are passed; -1: not running
    unsigned n_started; // daemons so far
};

void spawn_init(struct spawn *s);
void spawn_done(struct spawn *s);

// How one is started: rknnd OPTION VALUE.
struct spawn_command {
    const char *option;
    char value[160];
    const char *job_ms; // the longest run, of which rknnd has a default; NULL: that
    bool silent;        // says nothing on standard error, unless RKNN_SERVER_LOGLEVEL is set
};

/// Sets the value. Fails when it is too long.
int spawn_set_value(struct spawn_command *c, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Which daemon a connection goes to.
struct spawn_ticket {
    unsigned number;
    bool fresh; // started for this connection
};

/// A connection to the daemon, which is started if it does not run (any more). Returns the fd. One
/// that is about to end may still take a connection, which then breaks.
int spawn_connect(struct spawn *s, const struct spawn_command *command, struct spawn_ticket *ret,
                  struct error *e);

/// What that daemon said when it could not start: it is ending, and is waited for. "": nothing.
void spawn_last_words(struct spawn *s, const struct spawn_ticket *ticket, char *ret, size_t size);

/// Lets go of that daemon: the next connection starts another.
void spawn_forget(struct spawn *s, const struct spawn_ticket *ticket);
