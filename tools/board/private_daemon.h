// A daemon of the kit's own, with one backend, for one process: it ends with that.
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

#define SERVER_FOLDER 64 // bytes of its name

struct server {
    pid_t pid;
    char uri[SERVER_FOLDER + 16];
};

/// Starts `rknnd --backend BACKEND`, which listens in `folder`, and waits until it answers. rknnd
/// is looked for as find_daemon() says. server_stop() is safe after a failure.
int server_start(struct server *s, const char *backend, const char *folder, struct error *e);
void server_stop(struct server *s);

/// An empty file in memory for what daemons say. NULL, with words: there is none.
FILE *server_log_new(struct error *e);

/// A folder for a socket, which only this user may enter: in TMPDIR, or where that is too long for
/// one or cannot be written, in /tmp or another that is usual. It is made and removed by who
/// outlives the daemon's process, which may be killed.
int server_folder_make(char ret[SERVER_FOLDER], struct error *e);
void server_folder_remove(const char *folder); // "": none

/// Removes those of this user's that kits have left that were killed.
void server_folders_sweep(void);
