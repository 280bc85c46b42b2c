// Where clients arrive: sockets that listen, and the socket over which a parent hands connections
// over (--adopt).
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct server;

/// Listens at a URI: unix:PATH, tcp:HOST:PORT (every address of the host) or fd:N. A stale Unix
/// socket is replaced. Accepting begins with listeners_start().
int listener_open(struct server *s, const char *uri, struct error *e);

/// Takes over a socket that listens already; `name` is for people.
int listener_open_fd(struct server *s, int fd, const char *name, struct error *e);

/// Takes connections that arrive as file descriptors over the Unix socket `fd`; its end stops the
/// server.
int listener_adopt(struct server *s, int fd, struct error *e);

void listeners_start(struct server *s);

/// Closes all; Unix sockets that were made here are removed.
void listeners_close(struct server *s);
