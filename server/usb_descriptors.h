// The descriptors of rknnd's USB interface, in the form that FunctionFS takes them.
#pragma once

#include "base/bytes.h"

/// Interface, two bulk endpoints (in, out) for full, high and super speed, and the Microsoft OS
/// descriptors by which Windows loads WinUSB without a driver file.
struct bytes usb_descriptors(void);

/// The interface's name, in English.
struct bytes usb_strings(void);
