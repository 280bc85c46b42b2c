// Lists that a server numbers and of which it keeps the last: lines of its log, events.
#pragma once

#include "base/error.h"

// What an answer has of one.
struct numbered {
    uint64_t first, end; // of the answer, and behind the last that there is
    uint32_t n;
};

/// Whether `part` can be what comes from number `next` on: numbers must not go back, nor may there
/// be more and none of them, or who asks again might do so for ever. `what`, for words: "lines".
int numbered_check(const struct numbered *part, uint64_t next, const char *what, struct error *e);
