// usb:, for tests of what it finds.
#pragma once

#include "client/transport/checks.h"

/// The survey of transport_usb, of the USB devices that the kernel's files below `sysfs` show.
void transport_usb_survey(struct checks *c, const char *sysfs);
