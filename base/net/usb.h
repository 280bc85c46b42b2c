// What both ends of a USB cable and their helpers agree on: how rknnd's interface is known, in
// whichever gadget it is, and where things are.
#pragma once

#include <stddef.h>

#define USB_CLASS    0xff // vendor-specific
#define USB_SUBCLASS 0x52
#define USB_PROTOCOL 0x01
#define USB_NAME     "rknnd" // the interface's string, and the function's name

// Where rknnd-gadget mounts the function on the board.
#define USB_FOLDERS "/dev/usb-ffs"
#define USB_FOLDER  USB_FOLDERS "/" USB_NAME

/// The URI of a PC's relay for the board with this serial number ("": it has none), below /run or a
/// user's XDG_RUNTIME_DIR. Returns its length, as snprintf().
int usb_relay_uri(const char *runtime, const char *serial, char *ret, size_t size);

/// What lets this process's user open a board's device node, which is closed to him: the udev rule,
/// or (it has given the node to its group already) becoming a member.
void usb_advise_access(const char *node, char *ret, size_t size);
