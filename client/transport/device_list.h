// Servers and boards that were found: rknnd_list_devices(), while it is being made.
#pragma once

#include <stdint.h>

#include "rknnd.h"

// Filled by its owner; init with {.items = …, .max = …}.
struct device_list {
    rknnd_device *items;
    uint32_t max, n;     // n: how many there are, also when that is more than `max`
    rknnd_device beyond; // what does not fit is only counted
};

/// Adds SCHEME and REST, with the serial number of a board (""). The entry may be filled in
/// further until the next one comes.
rknnd_device *device_list_add(struct device_list *l, const char *scheme, const char *rest,
                              const char *serial);

/// Why it cannot be used: in a word, and in words (`obstacle`, with `detail` behind it).
void device_list_hinder(rknnd_device *d, const char *state, const char *obstacle,
                        const char *detail);

/// What to do about that.
void device_list_advise(rknnd_device *d, const char *advice);
