// Makes listening sockets from addresses. May block (names are looked up): before the loop runs.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/net/uri.h"

/// Takes over a socket that listens. `unlink_path` is a file that goes with it, or NULL.
typedef int bind_taker(void *owner, int fd, const char *name, const char *unlink_path,
                       struct error *e);

/// Whether a server listens at this Unix socket.
bool bind_unix_is_taken(const char *path);

/// A Unix socket, mode 0660, of `group` if that is not NULL. The socket of a server that is gone is
/// replaced; one that answers, or a file that is no socket, is refused. Of several servers that try
/// at once, one gets the path.
int bind_unix(const char *path, const char *group, bind_taker *take, void *owner, struct error *e);

/// Every address of the host. Unless `insecure`, all of them must be loopback addresses.
int bind_tcp(const struct uri *uri, bool insecure, bind_taker *take, void *owner, struct error *e);

/// STATUS_PARAM_INVALID, with words: `what` can be reached from other machines without TLS.
int bind_refuse_public(const char *what, struct error *e);

/// The TCP address that a socket listens on, as a URI. False: it has none, or only this machine can
/// reach it.
bool bind_is_public(int fd, char *uri, size_t size);
