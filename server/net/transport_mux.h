// A transport that is a channel of a USB link, at the board's end: frames are
// read from and written to its blocks directly, with no buffer between.
#pragma once

#include "server/net/transport.h"
#include "server/usb/mux.h"

/// Accepts the channel `number` that the PC opens (for mux_ops.open). NULL: out of memory.
struct transport *transport_mux_accept(struct mux *m, uint32_t number, uv_loop_t *loop);

/// For struct mux_ops.
int transport_mux_pull(struct mux_channel *ch, uint8_t *into, size_t size);
void transport_mux_push(struct mux_channel *ch, struct bytes data);
void transport_mux_closed(struct mux_channel *ch);
