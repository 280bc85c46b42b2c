// A socket joined to a channel of a USB link (PC's end): what one receives, the other sends, with
// back-pressure both ways.
#pragma once

#include <uv.h>

#include "server/usb/mux.h"

// All proxies of one USB link. They free themselves.
struct proxies {
    uv_loop_t *loop;
    struct list all;
    unsigned n;
    void (*idle)(struct proxies *p); // the last one is gone; may be NULL
};

void proxies_init(struct proxies *p, uv_loop_t *loop);

/// Joins `fd` (taken over, made non-blocking) to a new channel of `m`.
int proxy_open(struct proxies *all, struct mux *m, int fd, struct error *e);

/// For struct mux_ops.
int proxy_pull(struct mux_channel *ch, uint8_t *into, size_t size);
void proxy_push(struct mux_channel *ch, struct bytes data);
void proxy_closed(struct mux_channel *ch);

/// Closes all at once, unsent bytes included.
void proxies_close(struct proxies *all);
