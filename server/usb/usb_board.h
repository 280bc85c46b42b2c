// The board's end of a USB cable: rknnd's interface on FunctionFS.
#pragma once

#include <uv.h>

#include "base/error.h"
#include "server/net/transport.h"

struct usb_board;

/// Gives the descriptors to the FunctionFS instance that is mounted at `folder` and serves whoever
/// plugs in. take(owner, transport) gets a transport (taken over) for every program on the PC.
/// Everything happens on the loop.
int usb_board_open(struct usb_board **ret, uv_loop_t *loop, const char *folder,
                   void (*take)(void *owner, struct transport *transport), void *owner,
                   struct error *e);

/// Closes it; the memory goes when the loop has run. NULL is fine.
void usb_board_close(struct usb_board *b);
