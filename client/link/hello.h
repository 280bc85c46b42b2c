// HELLO: the first exchange on a connection.
#pragma once

#include "client/link/connection.h"

// How a process proves to a server that connections belong together.
struct session {
    uint64_t id; // 0: none yet
    uint8_t secret[HELLO_SECRET_SIZE];
};

/// Introduces us, joins *session or (id 0) gets a new one, which is put there. After it c->peer is
/// filled and its limits hold. STATUS_TIMEOUT: no answer in limit_ms; STATUS_DEVICE_UNAVAILABLE:
/// the server hung up. On failure *session is untouched.
int hello_exchange(struct connection *c, struct session *session, uint32_t limit_ms,
                   struct error *e);
