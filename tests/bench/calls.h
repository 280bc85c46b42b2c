// Clients of a daemon whose backend does nothing: a call is inputs set, run, outputs got.
#pragma once

#include "tests/bench/load.h"

#define CALLS_SIZES 3

struct calls_size {
    const char *name;
    unsigned request, reply; // bytes
};

extern const struct calls_size calls_sizes[CALLS_SIZES];

struct calls_service {
    const char *model;
    const struct calls_size *size;
};

/// Of a struct calls_service, at the server that rknnd_set_server() names.
extern const struct load_type calls_load;
