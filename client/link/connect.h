// From the address of a server to a connected socket.
#pragma once

#include <netdb.h>

#include "base/error.h"
#include "base/net/uri.h"

/// Connects to a unix:, tcp: (all addresses of the host in turn) or adb: server; bounded in time.
/// Returns a non-blocking, close-on-exec fd; words without the URI on failure.
int connect_to(const struct uri *uri, struct error *e);

// The steps of it.

/// Addresses of a tcp: server; the caller's, freeaddrinfo_p().
int connect_look_up(const struct uri *uri, struct addrinfo **ret, struct error *e);

static inline void freeaddrinfo_p(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

/// Connects to the first address that takes it, or to a socket file. Returns an fd as above, or
/// -errno (of the last address).
int connect_addresses(const struct addrinfo *list);
int connect_file(const char *path);

/// What a person can do about the errno of connect_addresses().
const char *connect_advice(int error);
