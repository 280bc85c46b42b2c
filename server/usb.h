// What the two ends of the cable agree on: how rknnd's USB interface is known, in whichever gadget
// it lies.
#pragma once

#define USB_CLASS     0xff // vendor-specific
#define USB_SUBCLASS  0x52
#define USB_PROTOCOL  0x01
#define USB_NAME      "rknnd" // the interface's string
#define USB_TRANSFERS 4       // under way at a time, each way
