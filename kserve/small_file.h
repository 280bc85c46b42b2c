// Texts that lie beside models.
#pragma once

#include <stddef.h>

#include "base/error.h"

/// The error of a file or folder that could not be opened, by errno. STATUS_MALLOC_FAIL,
/// STATUS_DEVICE_UNAVAILABLE: nothing is wrong with it, there is not enough of something now.
int file_cannot_open(const char *path, struct error *e);

/// *ret is the caller's; NULL: there is no such file. STATUS_PARAM_INVALID: it is none, or has more
/// than `most` bytes. Others as file_cannot_open().
int small_file_read(const char *path, size_t most, char **ret, struct error *e);
