// Private daemons (`sim:`): a daemon with the software NPU that belongs to this process.
//
// It runs beside the process, takes its connections over a socket pair and ends when that closes:
// when its last connection here is freed, or when the process ends in whatever way. It is started
// through a short-lived child without an exit signal, so the program's SIGCHLD handling and wait()
// calls never see either of them. Nothing of the program is inherited but standard error and the
// environment.
#pragma once

#include <pthread.h>

#include "base/error.h"

struct spawn {
    pthread_mutex_t lock;
    int control; // the socket over which connections are passed; -1: not running
};

void spawn_init(struct spawn *s);
void spawn_done(struct spawn *s);

/// A connection to the daemon, which is started if it does not run (any more). `chip` may be "".
/// Returns the fd.
int spawn_connect(struct spawn *s, const char *chip, struct error *e);
