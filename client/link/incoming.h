// What a server says: answers to our requests, and its own heartbeats.
#pragma once

#include "client/link/connection_state.h"

/// Works off what the connection's reader holds. Negative: the stream is useless (the caller loses
/// the connection).
int incoming_take(struct connection *c, struct error *e);

/// Lets the held request's payload go where its payload() says, and works off what follows.
int incoming_settle(struct connection *c, struct error *e);

/// Ends a waiting request; `why` for a negative status.
void incoming_finish(struct connection *c, struct request *r, int status, const struct error *why);
