// A wire that is a socket.
#pragma once

#include "base/error.h"
#include "server/wire.h"

/// Takes over a stream socket (made non-blocking). On failure it is not taken.
int wire_socket_new(uv_loop_t *loop, int fd, struct wire **ret, struct error *e);
