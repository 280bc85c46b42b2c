// What went wrong, in a code for programs and in words for people.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

// An error is a value of the caller, usually on its stack: nothing to free, nothing to allocate.
// A function that can fail takes a `struct error *` last (NULL: the caller wants only the code)
// and returns 0 or the negative status, so the common forms are
//
//     return error_set(e, STATUS_MODEL_INVALID, "node %s: no weights", name);
//     if (r < 0)
//         return error_prefix(e, "model %s", path);
//
// A function that succeeds leaves *e alone. Words say what, where and what to do.
struct error {
    int code;
    char text[480];
};

/// Sets code and words, cut to fit. Returns `code`, which must be negative.
int error_set(struct error *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// As error_set, with ": " and strerror(errno_value) appended.
int error_set_errno(struct error *e, int code, int errno_value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/// Puts "CONTEXT: " in front of the words that are there, unless they begin with it. Returns e's
/// code (STATUS_FAIL for NULL).
int error_prefix(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// Keeps the words under another code, and returns that.
int error_recode(struct error *e, int code);

/// STATUS_MALLOC_FAIL with words that name what could not be had. `bytes` 0: it is not known how
/// many.
int error_no_memory(struct error *e, const char *what, uint64_t bytes);
