// Unix sockets that listen, and their files. Used at the start, since it may wait.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/// Listens there: a socket that does not block, mode 0660, of `group` if that is not NULL. The
/// socket of a server that is gone is replaced; one that answers, one of which nothing is known,
/// and a file that is no socket, are refused. Of several servers that try at once, one gets the
/// path. What somebody else puts in its place meanwhile keeps its group and mode.
int unix_listen(const char *path, const char *group, struct error *e);

/// What unix_listen() would refuse whoever else listens: a path that is too long, or has a file
/// that is no socket. Its folder may be one that is made for the server's start.
int unix_check(const char *path, struct error *e);

/// Whether a server listens there.
bool unix_is_taken(const char *path);

// Which file a socket has, as long as the socket is open: nobody else's is this one until then.
struct unix_file {
    dev_t device;
    ino_t inode; // 0: none
};

/// The socket that is at the path now.
struct unix_file unix_file_at(const char *path);

/// Whether it is there still. It may have been removed, and another server be there.
bool unix_file_is_at(const struct unix_file *f, const char *path);

/// Removes it, if it is there still.
void unix_file_remove(const struct unix_file *f, const char *path);
