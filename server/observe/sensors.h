// How warm a machine is, what power it takes, and whether it slows itself down because of that, as
// Linux's hwmon, thermal zones, cooling devices and powercap say it.
#pragma once

#include <stddef.h>

#include "protocol/message.h"

#define SENSORS_MAX 256

// rknnd.Sensor.kind
enum sensor_kind {
    SENSOR_TEMPERATURE = 1, // thousandths of a degree Celsius; limit: where it becomes critical
    SENSOR_POWER = 2,       // microwatts; limit: the cap
    SENSOR_ENERGY = 3,      // microjoules so far; limit: where it begins again at 0
    SENSOR_COOLING = 4,     // steps by which something is slowed down, or a fan turns; limit: most
};

/// Fills `list` with up to SENSORS_MAX readings, by kind and name; no two of a kind have the same
/// name. `root` is where sysfs is mounted: "/sys". What cannot be read is left out. May block: a
/// driver may have to ask a chip.
size_t sensors_read(const char *root, rknnd_Sensor *list);
