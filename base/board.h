// What a board says of itself.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// The serial number that its maker gave it. False: this machine has none.
bool board_serial(char *ret, size_t size);

/// The first line of a file, without its end. False: there is none, or it is empty.
bool board_read_line(const char *path, char *ret, size_t size);
