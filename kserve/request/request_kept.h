// The last request of a connection: clients send the same JSON again and again, with other tensors
// behind it, and what is the same is not read again.
#pragma once

#include "kserve/request/request_parse.h"

#define REQUEST_KEPT_TEXT 1024 // bytes of JSON; longer ones are read each time

// All zero: none yet.
struct request_kept {
    struct request request;
    size_t n; // bytes of its JSON; 0: it is not there for another time
    uint8_t text[REQUEST_KEPT_TEXT];
};

/// As request_parse(), into k->request, which request_kept_done() is for.
int request_kept_parse(struct request_kept *k, const uint8_t *body, size_t size, int64_t header,
                       struct error *e);
void request_kept_done(struct request_kept *k);
/// Whether it is there for another time, and its JSON has that many bytes. NULL: no.
bool request_kept_has(const struct request_kept *k, int64_t header);

/// Whether a body that begins so is one that need not be read again.
bool request_kept_is(const struct request_kept *k, const uint8_t *body, size_t n, int64_t header);
