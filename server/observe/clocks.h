// How fast a machine's CPUs, memory and devices are clocked at present, as Linux's cpufreq and
// devfreq say it.
#pragma once

#include <stddef.h>

#include "protocol/message.h"

#define CLOCKS_MAX 256

/// Fills `list` with up to CLOCKS_MAX clocks: CPUs, then devices, each by name. `root` is where
/// sysfs is mounted: "/sys". What cannot be read is left out. May block, but not for long.
size_t clocks_read(const char *root, rknnd_Clock *list);
