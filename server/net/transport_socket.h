// A wire that is a socket.
#pragma once

#include "base/error.h"
#include "server/net/transport.h"

/// Takes over a stream socket (made non-blocking). On failure it is not taken.
int wire_socket_new(uv_loop_t *loop, int fd, struct wire **ret, struct error *e);

/// The other end of this socket is another machine, which may go without a word: it is made to
/// answer at least every `idle_ms`, and is gone when it has not done so for `timeout_ms`. To be
/// followed by wire_is_gone(), several times in that time.
void wire_socket_keep_asking(struct wire *w, uint32_t idle_ms, uint32_t timeout_ms);
