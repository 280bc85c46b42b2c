// Which servers are within reach.
#pragma once

#include "rknnd.h"

/// Boards: at a USB cable, as the kernel's files below `sysfs` (USB_SYSFS) show them; behind the
/// adb server that runs; both, those at a cable first. Return how many there are, also when that is
/// more than `max`.
unsigned devices_find_usb(const char *sysfs, rknnd_device *list, unsigned max);
unsigned devices_find_adb(rknnd_device *list, unsigned max);
unsigned devices_find_boards(rknnd_device *list, unsigned max);
