// Boards at a USB cable of this machine: which are there, and how a program gets at them: through a
// relay (rknnd --relay), which is shared where one runs, and private else.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

struct usb_board_info {
    char serial[128];
    char node[48]; // /dev/bus/usb/BUS/DEVICE
    bool in_use;   // a program has claimed it
    bool allowed;  // this user may open the node
};

/// The boards with rknnd's interface, from sysfs. Returns how many there are, also when that is
/// more than `max`.
unsigned usb_list(struct usb_board_info *ret, unsigned max);

/// The text of one of a device's or interface's attributes below `sysfs` ("/sys"), without its end
/// of line. False: there is none.
bool usb_read_attribute(const char *sysfs, const char *device, const char *name, char *ret,
                        size_t size);

/// The folder of all devices and interfaces. NULL: there is none.
DIR *usb_open_devices(const char *sysfs);

static inline void closedir_p(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

/// Connects to the socket of a relay for the board ("": the only one) that runs. Negative: there is
/// none.
int usb_connect_relay(const char *serial);
