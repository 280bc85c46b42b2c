// Boards at a USB cable of this machine: which are there, and how a program gets at them: through a
// relay (rknnd --relay), which is shared where one runs, and private else.
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct usb_board_info {
    char serial[128];
    char node[48]; // /dev/bus/usb/BUS/DEVICE
    bool in_use;   // a program has claimed it
    bool allowed;  // this user may open the node
};

/// The boards with rknnd's interface, from sysfs. Returns how many there are, also when that is
/// more than `max`.
unsigned usb_list(struct usb_board_info *ret, unsigned max);

/// Connects to the socket of a relay for the board ("": the only one) that runs. Negative: there is
/// none.
int usb_connect_relay(const char *serial);
