// Errors of the client library, in its own words.
#pragma once

#include "base/error.h"

// Both are for a call that failed with the negative `code`: right behind it, on its thread, since
// the words are rknnd_last_error(). They return the code, or STATUS_FAIL for one that is not known.

/// "CONTEXT: " and the words; no context where it is "".
int rknn_error_set(struct error *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// As rknn_error_set, for a model: names it by `path` once, whether or not the library has named
/// it.
int rknn_error_model(struct error *e, int code, const char *path);
