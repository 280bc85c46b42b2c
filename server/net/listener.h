// Where clients arrive: sockets that listen, and the socket over which a parent hands connections
// over (--adopt).
#pragma once

#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "server/net/user.h"
#include "server/options.h"

// Embedded by who serves the connections.
struct listeners {
    uv_loop_t *loop;
    const struct options *options; // socket_group, insecure
    /// Serves a connected stream socket (taken over).
    void (*take)(struct listeners *l, int fd, const struct origin *origin);
    /// The program that hands connections over (listener_adopt) has ended. The others listen on.
    void (*orphaned)(struct listeners *l);
    struct list all;
};

/// Listens at a URI: unix:PATH, tcp:HOST:PORT (every address of the host) or fd:N. A stale Unix
/// socket is replaced. Accepting begins with listeners_start().
int listener_open(struct listeners *all, const char *uri, struct error *e);

/// Takes over a socket that listens already; `name` is for people.
int listener_open_fd(struct listeners *all, int fd, const char *name, struct error *e);

/// Takes connections that arrive as file descriptors over the Unix socket `fd`.
int listener_adopt(struct listeners *all, int fd, struct error *e);

#define LISTENER_URI_SIZE 128

/// The TCP addresses that other machines can reach, as URIs. Returns how many there are, also when
/// that is more than `max`.
unsigned listeners_find_public(const struct listeners *all, char (*ret)[LISTENER_URI_SIZE],
                               unsigned max);

/// Those that have not begun yet.
void listeners_start(struct listeners *all);

/// Closes all; Unix sockets that were made here are removed.
void listeners_close(struct listeners *all);
