// The JSON of a request: one pass with yajl, tensors' numbers going straight into their memory.
#pragma once

#include "kserve/request/request.h"

enum request_member {
    GIVEN_NAME = 1,
    GIVEN_SHAPE = 2,
    GIVEN_TYPE = 4,
    GIVEN_DATA = 8,
    GIVEN_LATE = 16, // data came before type or shape: to be read in another pass
};

/// Fills what the JSON says. An input's `made` is allocated for its data: no more than eight times
/// the text. On failure inputs may be half filled: request_done().
int request_read_json(struct request *r, const uint8_t *text, size_t size, struct error *e);
