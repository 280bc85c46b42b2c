// From the address of a server to a connected socket.
#pragma once

#include "base/error.h"
#include "base/uri.h"

/// Connects to a unix: or tcp: server, all addresses of a host in turn; bounded in time. Returns a
/// non-blocking, close-on-exec fd; words without the URI on failure.
int connect_to(const struct uri *uri, struct error *e);
