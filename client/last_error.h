// The words behind an RKNN error code, kept for rknnd_last_error().
#pragma once

#include "base/error.h"

// Public functions are the only visible symbols (librknnrt.map).
#define RKNN_EXPORT __attribute__((visibility("default")))

/// The end of every public function: for a negative `status` keeps "FUNCTION: words" for this
/// thread and logs them. Returns `status`.
int last_error_keep(const char *function, int status, const struct error *e);

/// Takes RKNN_LOG_LEVEL from the environment, once: 0 to 5, unset is silent.
void last_error_read_log_level(void);
