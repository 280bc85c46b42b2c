// The protocol's addresses, and what is answered there. Knows nothing of sockets.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kserve/http/reply.h"

struct repository;
struct pulse;

struct site {
    struct repository *models;
    struct pulse *pulse;
};

struct page_request {
    const char *method, *path; // the path as it was decoded
    const uint8_t *body;
    size_t size;
    int64_t header; // Inference-Header-Content-Length; REQUEST_NO_HEADER
};

/// Fills *r, whose `code` is 0. *ret_allow: methods that there are, of a page that does not take
/// this one; else NULL.
void pages_answer(const struct site *s, const struct page_request *q, struct reply *r,
                  const char **ret_allow);
