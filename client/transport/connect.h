// Sockets to servers: names are looked up, all addresses of a host are tried in turn, and all of it
// is bounded in time (LIMIT_CONNECT_MS for each address).
#pragma once

#include <netdb.h>

#include "base/error.h"
#include "base/net/uri.h"
#include "client/transport/checks.h"

/// Addresses of a host; the caller's, freeaddrinfo_p().
int connect_look_up(const struct uri *uri, struct addrinfo **ret, struct error *e);

static inline void freeaddrinfo_p(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

/// Connects to the first address that takes it, or to a socket file. Returns a non-blocking,
/// close-on-exec fd, or -errno (of the last address).
int connect_addresses(const struct addrinfo *list);
int connect_file(const char *path);

/// What a person can do about the errno of connect_addresses().
const char *connect_advice(int error);

/// Connects to HOST:PORT and tells each step of it as a check. Returns the fd, or a negative number
/// that was told.
int connect_check(struct checks *c, const struct uri *uri);
