// Bodies that have one flag: {"ready": true}, or {"parameters": {"unload_dependents": true}}.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/// Reads {FLAG: true or false}, or {} without it; with `outer` (may be NULL) {OUTER: such a thing}
/// or {}. *ret stays as it is where the flag is not there. STATUS_PARAM_INVALID: it is anything
/// else, *e says what it is to be.
int json_flag_read(const char *text, size_t size, const char *outer, const char *flag, bool *ret,
                   struct error *e);
