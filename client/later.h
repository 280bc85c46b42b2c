// Answers of functions that a later version of rknnd fills in.
#pragma once

#include "client/last_error.h"

/// Negative status of a function that is not there yet, with words.
static inline int later_status(const char *function)
{
    struct error e;
    return last_error_keep(
        function, error_set(&e, STATUS_FAIL, "not in this version of rknnd (" RKNND_VERSION ")"),
        &e);
}
