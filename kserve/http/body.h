// The body of a request, as it comes: by its length or in chunks, within what a server takes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kserve/http/head.h"
#include "kserve/memory.h"

// Its bytes are good until the next request is waited for, or body_done(): they may lie in the
// connection's buffer.
struct body {
    const uint8_t *bytes; // in the connection's buffer, or `made`
    size_t size;
    uint8_t *made;
    size_t room, has; // has: of `made`, what has come
    struct memory_share *share;
    uint64_t taken; // of it
};

// There is nobody left to hear of it.
#define BODY_GONE 1 // instead of a status: the peer has gone

/// Reads a body of `most` bytes at most. 0, or the status that the request is to be refused with,
/// and words in `e`, or BODY_GONE; body_done() in each case. A client that waits to be told to send
/// it is told.
unsigned body_read(struct body *b, struct talk *t, const struct http_head *h, uint64_t most,
                   struct error *e);

/// Where a large one is, all but JSON that has come already, goes to `to` as long as it comes
/// without a pause. False: it did not, and body_read_on() is for the rest. *b is then its own.
bool body_read_to(struct body *b, struct talk *t, const struct http_head *h, uint8_t *to,
                  unsigned *ret_status, struct error *e);
unsigned body_read_on(struct body *b, struct talk *t, struct error *e);

/// Unpacks it, if it is packed. A status, as above.
unsigned body_unpack(struct body *b, enum packing p, uint64_t most, struct error *e);
void body_done(struct body *b);
