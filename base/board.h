// What a board says of itself.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// The serial number that its maker gave it. False: this machine has none.
bool board_serial(char *ret, size_t size);
