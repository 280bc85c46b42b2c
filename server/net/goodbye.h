// The last word to who has no connection: GOODBYE, as a frame of the protocol.
#pragma once

#include "server/net/transport.h"

/// Sends as much of it as goes at once.
void goodbye_send(struct transport *t, const char *reason);
