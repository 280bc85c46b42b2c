// Bytes that wait: a queue with a bound, which takes no memory before it is used.
#pragma once

#include <stdbool.h>

#include "base/bytes.h"

// Embedded by its owner.
struct ring {
    uint8_t *bytes; // `limit` of them; NULL: nothing was put yet
    size_t limit, first, n;
};

void ring_init(struct ring *r, size_t limit);
void ring_done(struct ring *r);

/// Copies `data` to its end; the caller knows that it fits. False: out of memory.
bool ring_put(struct ring *r, struct bytes data);

/// The first bytes, as many as are contiguous; none: it is empty.
struct bytes ring_peek(const struct ring *r);

/// Drops the first `n`, at most what ring_peek() gave.
void ring_drop(struct ring *r, size_t n);
