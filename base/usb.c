// Places that belong to boards at a USB cable.
#include "base/usb.h"

#include <stdio.h>

int usb_relay_uri(const char *runtime, const char *serial, char *ret, size_t size)
{
    return snprintf(ret, size, "unix:%s/rknnd/usb%s%s.sock", runtime, *serial ? "-" : "", serial);
}
