// What one user may have: the option --quota, `USER:contexts=N,in-flight=N,bytes=N,share=N`.
#pragma once

#include <stdint.h>

#include "base/error.h"

#define QUOTA_MAX_SHARE 1000

// USER: a name or number of the system, "tcp" (all who come over the network), or "*" (everyone
// who has no quota of their own). Each user that "*" stands for has all of it.
struct quota {
    char user[32];
    uint32_t contexts; // of all the user's programs; 0: no limit, as for the next ones
    uint32_t in_flight;
    uint64_t bytes; // inputs and outputs in flight, and memory objects
    uint32_t share; // 1 … QUOTA_MAX_SHARE, 1 where nothing is said: device time beside other users
};

int quota_parse(const char *text, struct quota *ret, struct error *e);
