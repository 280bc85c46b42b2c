// The descriptors of rknnd's USB interface, in the form that FunctionFS takes them.
#pragma once

#include "base/error.h"

/// Gives FunctionFS' `ep0` an interface with two bulk endpoints (in, out) for full, high and super
/// speed, the Microsoft OS descriptors by which Windows loads WinUSB without a driver file, and the
/// interface's name in English.
int usb_descriptors_give(int ep0, struct error *e);
