// Memory that all requests and answers have together, and what of it each connection holds.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct memory_share;

// Embedded by who knows the connections.
struct memory {
    uint64_t most; // bytes
    _Atomic uint64_t used;
    /// Waits a little until some may be there again, and sees to that. NULL: nobody gives anything
    /// back for others.
    void (*make_room)(struct memory *m, struct memory_share *wanted_by);
    /// Some is there again. May be NULL.
    void (*freed)(struct memory *m);
};

// One connection's. Whoever asks where `of` is NULL gets all that it wants.
struct memory_share {
    struct memory *of;
    _Atomic uint64_t held; // bytes
};

#define MEMORY_SOON_MS 2000 // what is asked for without a queue

/// Takes so many bytes. False: others hold them, and others still after `patience_ms`. A share may
/// be NULL.
bool memory_take(struct memory_share *s, uint64_t bytes, unsigned patience_ms);
void memory_give(struct memory_share *s, uint64_t bytes);
