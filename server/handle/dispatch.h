// From a message to its handler: state, id, permission, decode, handle.
#pragma once

#include "server/net/connection.h"

/// A message of a client, as connection_ops.on_message(). The payload's destination is decided when
/// this returns, unless the connection has been closed.
void dispatch_message(struct connection *c, const struct frame_header *h, struct bytes message);

/// What an answer that is made later costs, as connection_ops.answer_cost_us().
uint32_t dispatch_answer_cost_us(uint16_t type);
