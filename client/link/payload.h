// Answers whose payload is a block of bytes of a size that only the server knows.
#pragma once

#include <stdlib.h>

#include "client/link/connection.h"

struct payload {
    uint8_t *data; // malloc'ed, one zero byte behind it
    size_t size, limit;
};

/// For request.payload, with a `struct payload` (limit set) as owner: takes up to `limit` bytes.
int payload_take(struct request *r, uint64_t size, struct iovec *segments, struct error *e);

static inline void payload_done(struct payload *p)
{
    free(p->data);
    p->data = NULL;
}
