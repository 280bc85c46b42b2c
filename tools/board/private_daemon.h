// A daemon of the kit's own, with one backend, for one process: it ends with that.
#pragma once

#include <sys/types.h>

#include "base/error.h"

struct server {
    pid_t pid;
    char folder[64], uri[128];
};

/// Starts `rknnd --backend BACKEND` and waits until it answers. rknnd is looked for as RKNND_DAEMON
/// says, beside rknnctl, in PATH and in /usr/sbin. server_stop() is safe after a failure.
int server_start(struct server *s, const char *backend, struct error *e);
void server_stop(struct server *s);
