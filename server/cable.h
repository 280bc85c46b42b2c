// One end of a USB cable: a mux, the sockets that are joined to it, and the turn in which blocks
// are made. What moves the blocks is usb_board.c or usb_host.c.
#pragma once

#include "server/mux.h"
#include "server/pump.h"

#define CABLE_TRANSFERS 4 // under way at a time, each way

struct cable {
    struct mux mux;
    struct pumps pumps;
    uv_prepare_t turn; // before the loop waits
    bool woken;
    /// Sends blocks (mux_fill) as long as there are transfers to put them in.
    void (*refill)(struct cable *c);
    /// Takes over one end of a new channel, a Unix socket (board's end).
    void (*take)(struct cable *c, int fd);
    void (*closed)(struct cable *c);
    bool closing, turn_closed;
};

/// `refill`, and at the board's end `take`, are set already.
void cable_init(struct cable *c, uv_loop_t *loop, bool host);

/// A transfer is free again: refill() will be called.
void cable_wake(struct cable *c);

/// Stops the mux and closes everything; then calls `closed` from the loop. refill() comes no more.
void cable_close(struct cable *c, void (*closed)(struct cable *c));
