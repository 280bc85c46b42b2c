// TLS over another transport: the client says who it is in the handshake, before its first frame.
#pragma once

#include "base/tls/tls_context.h"
#include "server/net/rounds.h"
#include "server/net/transport.h"

// What a server's TLS transports have in common. Embedded by the server. Loop thread only.
struct tls_door {
    struct tls_context *context; // NULL: there is no TLS
    struct rounds rounds;        // handshakes, one in each turn of the loop
    struct rounds_line line;
    uint64_t logged_ms; // when a failed handshake was last logged
    unsigned n_unsaid;  // failed since then
};

void tls_door_init(struct tls_door *door, uv_loop_t *loop);

/// When its transports are closed. The context is the owner's.
void tls_door_close(struct tls_door *door);

/// Takes over `inner`, a socket; on failure it is not taken. `peer`: its address, for the log. The
/// handshake has no time limit of its own: it is the owner's, as for a peer that says nothing.
int transport_secure_new(struct tls_door *door, struct transport *inner, const char *peer,
                         struct transport **ret, struct error *e);
