// Tells the board when its relay has died. The PC's kernel lets go of the interface then and says
// nothing, so the board would keep what the relay's programs held. A process of its own outlives
// the relay for a moment and selects the interface's setting, which makes the board drop everything
// (PROTOCOL.md, USB). Until then it sleeps: a relay that is stopped (SIGSTOP) is not dead.
#pragma once

#include "base/error.h"

/// Starts it. *ret_fd is the caller's; when it is closed, be it by the caller's death, the board
/// that was last named is told.
int usb_guard_start(int *ret_fd, struct error *e);

/// The board that the caller has from now on; `node` NULL: none.
void usb_guard_name(int fd, const char *node, int interface);

/// Is that process (--guard FD). Returns its exit code.
int usb_guard_run(int fd);
