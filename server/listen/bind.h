// Makes listening sockets from addresses. May block (names are looked up): before the loop runs.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/net/uri.h"

/// Takes over a socket that listens. `unlink_path` is a file that goes with it, or NULL.
typedef int bind_taker(void *owner, int fd, const char *name, const char *unlink_path,
                       struct error *e);

/// A Unix socket as unix_listen() makes it.
int bind_unix(const char *path, const char *group, bind_taker *take, void *owner, struct error *e);

/// Every address of the host. With `advice` all of them must be loopback addresses: others are
/// refused with these words. NULL: any.
int bind_tcp(const struct uri *uri, const char *advice, bind_taker *take, void *owner,
             struct error *e);

/// Whether bind_tcp() may listen there, without doing so.
int bind_check_tcp(const struct uri *uri, const char *advice, struct error *e);

#define BIND_USE_TLS                                                                               \
    "where anybody could use this server and read along: listen on tls:ADDRESS:PORT instead "      \
    "(rknnd(8), TLS), use a loopback address, or allow it with --insecure"
#define BIND_USE_PROXY                                                                             \
    "where anybody could read who runs what: use a loopback address or unix:PATH, with a proxy "   \
    "that has TLS and asks who it is before it for other machines, or allow it with --insecure"

/// STATUS_PARAM_INVALID, with words: `what` can be reached from other machines, and advice.
int bind_refuse_public(const char *what, const char *advice, struct error *e);

/// The TCP address that a socket listens on, as a URI. False: it has none, or only this machine can
/// reach it.
bool bind_is_public(int fd, char *uri, size_t size);
