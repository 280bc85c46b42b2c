// From a request's body to struct request.
#pragma once

#include "kserve/request/request.h"

/// Reads a body of `size` bytes, whose first `header` are JSON (REQUEST_NO_HEADER: all; 0: none, it
/// is raw). The request points into the body. On failure STATUS_PARAM_INVALID, or
/// STATUS_MALLOC_FAIL, and nothing is to be freed.
int request_parse(struct request *r, const uint8_t *body, size_t size, int64_t header,
                  struct error *e);
void request_done(struct request *r);

/// The part of that which is about what lies behind the JSON, for a request whose JSON is read.
int request_take_tensors(struct request *r, const uint8_t *body, size_t size, size_t header,
                         struct error *e);

/// Whether the answer may leave bytes behind its JSON for this output.
bool request_is_binary(const struct request *r, unsigned output);
