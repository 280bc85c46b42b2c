// The least that moves bytes over a USB cable, to measure rknnd's cable by: FunctionFS at one end,
// libusb at the other, as many transfers under way and as large as rknnd's, and nobody who looks at
// what is in them. Failures end the program with words.
#pragma once

#include <stdbool.h>

struct bare_usb;

/// The board's end, on the FunctionFS instance that is mounted at `folder`: takes everything and
/// sends for ever.
_Noreturn void bare_usb_serve(const char *folder);

/// The PC's end: the interface of the gadget with this serial number.
struct bare_usb *bare_usb_open(const char *serial);
void bare_usb_close(struct bare_usb *b);

/// Bytes that pass in a second, to the board (`up`) or from it.
double bare_usb_rate(struct bare_usb *b, bool up, double seconds);
