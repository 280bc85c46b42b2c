// Boards at a USB cable of this machine: which are there, and how a program gets at them: through a
// relay (rknnd --relay), a shared one if one runs, else a private one.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/net/uri.h"

#define USB_SYSFS      "/sys"
#define USB_MAX_BOARDS 32

struct usb_board_info {
    char serial[128]; // "": it has none
    char node[48];    // /dev/bus/usb/BUS/DEVICE
    bool in_use;      // a program has claimed it
    int closed;       // why this user may not open the node: an errno; 0: they may
};

/// The boards with rknnd's interface that the kernel's files below `sysfs` (USB_SYSFS) show, in the
/// order of their serial numbers. Returns how many there are, also when that is more than `max`.
unsigned usb_list(const char *sysfs, struct usb_board_info *ret, unsigned max);

/// Whether one of the interfaces of a device ("1-2") is rknnd's.
bool usb_is_board(const char *sysfs, const char *device);

/// The text of one of a device's or interface's attributes, without its end of line. False: there
/// is none.
bool usb_read_attribute(const char *sysfs, const char *device, const char *name, char *ret,
                        size_t size);

/// The folder of all devices and interfaces. NULL: there is none.
DIR *usb_open_devices(const char *sysfs);

/// Connects to the socket of a relay for the board that runs. Returns an fd, or -errno: -EACCES if
/// there is one that is closed to this user.
int usb_connect_relay(const char *serial);
