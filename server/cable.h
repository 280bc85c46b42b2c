// One end of a USB cable: a mux, and the turn in which blocks are made. What its channels end in is
// wire_mux.c's on the board, and pump.c's on the PC; what moves the blocks is usb_board.c or
// usb_host.c.
#pragma once

#include <uv.h>

#include "server/mux.h"

#define CABLE_TRANSFERS 4 // under way at a time, each way

struct cable {
    struct mux mux;
    uv_idle_t turn; // when there may be something to send, before the loop waits
    /// Sends blocks (mux_fill) as long as there are transfers to put them in.
    void (*refill)(struct cable *c);
    void (*closed)(struct cable *c);
    bool closing;
};

/// `refill` is set already. `ops` has cable_wake().
void cable_init(struct cable *c, uv_loop_t *loop, bool host, const struct mux_ops *ops);

/// refill() will be called from the loop: there is something to send, or a transfer is free again.
/// For struct mux_ops.
void cable_wake(struct mux *m);

/// Stops the mux, whose channels all close; then calls `closed` from the loop. refill() comes no
/// more.
void cable_close(struct cable *c, void (*closed)(struct cable *c));
