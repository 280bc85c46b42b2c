// The words behind an RKNN error code, kept for rknnd_last_error().
#pragma once

#include "base/error.h"

// Public functions are the only visible symbols (librknnrt.map).
#define RKNN_EXPORT __attribute__((visibility("default")))

/// The end of every public function: for a negative `status` keeps "FUNCTION: words" for this
/// thread and logs them as an error. Unless RKNN_LOG_LEVEL is set, words that repeat
/// (but for their numbers) are logged the 1st, 10th, 100th time and so on. Returns
/// `status`.
int last_error_keep(const char *function, int status, const struct error *e);

/// The same for a failure that is about something, whose name stands before the words, unless they
/// begin with it; "": nothing. rknnd_last_reason() leaves it out.
int last_error_keep_about(const char *function, const char *about, int status,
                          const struct error *e);

/// As last_error_keep(), for what programs try, or wait for, as a matter of course: it is logged as
/// information only.
int last_error_keep_expected(const char *function, int status, const struct error *e);

/// Takes RKNN_LOG_LEVEL from the environment, once: 0 to 5, unset is 1 (errors).
void last_error_read_log_level(void);
