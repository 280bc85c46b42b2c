// The protocol's addresses, and what is answered there. Knows nothing of sockets.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kserve/http/reply.h"

struct repository;
struct pulse;
struct placement;
struct quick_run;
struct request_kept;

struct site {
    struct repository *models;
    struct pulse *pulse;
};

struct page_request {
    const char *method, *path; // the path as it was decoded
    const uint8_t *body;
    size_t size;
    int64_t header;              // Inference-Header-Content-Length; REQUEST_NO_HEADER
    struct request_kept **kept;  // of the connection, for infer()
    struct placement *placement; // what lies behind the JSON was read to; NULL: to nowhere else
};

/// Fills *r, whose `code` is 0. *ret_allow: methods that there are, of a page that does not take
/// this one; else NULL.
void pages_answer(const struct site *s, const struct page_request *q, struct reply *r,
                  const char **ret_allow);

/// For a request of which the first `n` bytes of the body are there: whether all that is behind
/// its JSON can be read to p->to, instead of to behind the JSON.
bool pages_place(const struct site *s, const struct page_request *q, size_t n, struct placement *p);

/// Starts an inference that can be left to itself, for infer_end(). False: nothing has happened,
/// and pages_answer() is for it.
bool pages_begin(const struct site *s, const struct page_request *q, struct quick_run *run);
