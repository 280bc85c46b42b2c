// The PC's end of a USB cable: claims a board's rknnd interface, with libusb.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"

struct usb_host;

struct usb_host_owner {
    /// The board is there and about to be claimed: the first time, or again. Negative: not now.
    int (*found)(void *owner, const char *serial, struct error *e);
    /// usb_host_is_up() or the reason why not has changed.
    void (*changed)(void *owner);
};

/// Looks for the board with this serial number ("": the only one, and from then on that one) now
/// and whenever something is plugged in, claims it, and does so again after it was gone. Everything
/// happens on the loop.
int usb_host_new(struct usb_host **ret, uv_loop_t *loop, const char *serial,
                 const struct usb_host_owner *calls, void *owner, struct error *e);

/// Closes it; the memory goes when the loop has run. NULL is fine.
void usb_host_close(struct usb_host *u);

bool usb_host_is_up(const struct usb_host *u);

/// Why it is not up: no board, no permission, in use, …
const struct error *usb_host_why(const struct usb_host *u);

/// A connection to the daemon on the board; `fd` (taken over) is this side's other end.
int usb_host_connect(struct usb_host *u, int fd, struct error *e);

/// Connections that are there.
unsigned usb_host_connections(const struct usb_host *u);
