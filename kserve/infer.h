// An inference: from the body of a request to that of its answer.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct reply;
struct served_model;

/// `header`: Inference-Header-Content-Length; REQUEST_NO_HEADER. Blocks as long as it takes.
void infer(struct served_model *m, const uint8_t *body, size_t size, int64_t header,
           struct reply *r);
