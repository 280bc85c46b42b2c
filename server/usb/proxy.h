// A socket joined to a channel of a cable (PC's end): what one receives, the other sends, with
// back-pressure both ways.
#pragma once

#include <uv.h>

#include "server/usb/mux.h"

// All pumps of one cable. They free themselves.
struct pumps {
    uv_loop_t *loop;
    struct list all;
    unsigned n;
    void (*idle)(struct pumps *p); // the last one is gone; may be NULL
};

void pumps_init(struct pumps *p, uv_loop_t *loop);

/// Joins `fd` (taken over, made non-blocking) to a new channel of `m`.
int pump_open(struct pumps *p, struct mux *m, int fd, struct error *e);

/// For struct mux_ops.
int pump_pull(struct mux_channel *ch, uint8_t *into, size_t size);
void pump_push(struct mux_channel *ch, struct bytes data);
void pump_closed(struct mux_channel *ch);

/// Closes all at once, unsent bytes included.
void pumps_close(struct pumps *p);
