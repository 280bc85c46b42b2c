// One end of a USB cable: a mux, the blocks of it that transfers carry, and the turn of the loop in
// which they are made and worked off. What its channels end in is transport_mux.c's on the board,
// and proxy.c's on the PC; what moves the blocks is usb_board.c or usb_host.c.
//
// The other end waits for as long as a transfer is not under way. So one that has ended goes on
// with another block at once: an empty one to receive into, or one that was made meanwhile.
#pragma once

#include <uv.h>

#include "server/usb/mux.h"

#define USB_LINK_TRANSFERS 4 // under way at a time, each way
#define USB_LINK_BLOCKS    8 // each way; those of no transfer are empty, or wait

struct usb_link;

// Embedded by its owner.
struct usb_link_transfer {
    uint8_t *block;    // MUX_BLOCK bytes; NULL: none
    struct bytes lent; // goes behind those of the block, for submit(); where the link may lend
    bool busy;
};

struct usb_link_block {
    uint8_t *data;
    size_t size;
};

// First in, first out.
struct usb_link_queue {
    struct usb_link_block blocks[USB_LINK_BLOCKS];
    unsigned first, n;
};

// What the owner of a link does for it.
struct usb_link_ops {
    /// Starts a transfer of t->block, which has `size` bytes to send or room for as many. False: it
    /// cannot; the link may have been stopped from inside.
    bool (*submit)(struct usb_link *c, struct usb_link_transfer *t, size_t size);
    /// A block has come, for mux_receive(). May stop the link.
    void (*take)(struct usb_link *c, struct bytes block);
    void (*closed)(struct usb_link *c);
};

struct usb_link {
    struct mux mux;
    const struct usb_link_ops *ops;
    struct usb_link_transfer *receiving[USB_LINK_TRANSFERS], *sending[USB_LINK_TRANSFERS];
    bool up;    // transfers may start
    bool lends; // submit() has done with memory when it returns, so that not all need be copied
    struct usb_link_queue came, made;
    struct usb_link_queue empty_in, empty_out;
    uv_idle_t turn; // when there may be something to do, before the loop waits
    bool closing;
};

/// `ops` of the mux has usb_link_wake(). The caller fills in `receiving` and `sending`, and
/// `lends`, then.
void usb_link_init(struct usb_link *c, uv_loop_t *loop, bool host, const struct mux_ops *mux_ops,
                   const struct usb_link_ops *ops);

/// Gives it USB_LINK_BLOCKS blocks for each direction; no transfer is busy.
void usb_link_use(struct usb_link *c, uint8_t (*in)[MUX_BLOCK], uint8_t (*out)[MUX_BLOCK]);

/// Listens and sends until usb_link_stop(), which drops what waits and stops the mux. Safe to
/// repeat.
void usb_link_start(struct usb_link *c);
void usb_link_stop(struct usb_link *c);

/// A transfer has ended, in whatever way: it brought `size` bytes (0: nothing), or has sent its
/// block.
void usb_link_received(struct usb_link *c, struct usb_link_transfer *t, size_t size);
void usb_link_sent(struct usb_link *c, struct usb_link_transfer *t);

/// There is something to send. For struct mux_ops.
void usb_link_wake(struct mux *m);

/// Stops it, then calls closed() from the loop.
void usb_link_close(struct usb_link *c);
