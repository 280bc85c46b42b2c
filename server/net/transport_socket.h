// A transport that is a socket.
#pragma once

#include "base/error.h"
#include "server/net/transport.h"

/// Takes over a stream socket (made non-blocking). On failure it is not taken.
int transport_socket_new(uv_loop_t *loop, int fd, struct transport **ret, struct error *e);

/// The other end of this socket is another machine, which may go without a word: it is made to
/// answer at least every `idle_ms`, and is gone when it has not done so for `timeout_ms`. To be
/// followed by transport_is_gone(), several times in that time.
void transport_socket_keep_asking(struct transport *w, uint32_t idle_ms, uint32_t timeout_ms);
