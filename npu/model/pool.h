// Memory that is given out piece by piece and freed all at once: what a loaded model consists of.
#pragma once

#include <stddef.h>

#include "base/bytes.h"

struct pool_block;

// A zeroed pool is an empty one.
struct pool {
    struct pool_block *blocks;
    size_t total; // bytes given out
};

/// n zeroed elements, aligned to 64 bytes when they are many, to 16 otherwise. NULL: no memory, or
/// the size overflows. n or size 0 gives a pointer that may not be read.
void *pool_alloc(struct pool *p, size_t n, size_t size);

/// Makes room for `need` items in an array of memory of the pool that has `n` of them; `room` is a
/// variable of any unsigned type. False, and nothing changed: no memory. The old items stay behind
/// in the pool; as the room doubles, all of them take no more than the last.
#define pool_reserve(pool, items, n, room, need)                                                   \
    ({                                                                                             \
        size_t room_ = (room);                                                                     \
        const size_t max_ = (size_t)(__typeof__(room))-1;                                          \
        void *items_ = pool_grow(pool, items, n, &room_, need, max_, sizeof *(items));             \
        if (items_) {                                                                              \
            (items) = items_;                                                                      \
            (room) = (__typeof__(room))room_;                                                      \
        }                                                                                          \
        items_ != NULL;                                                                            \
    })

/// What pool_reserve() calls. Returns where the items are now.
void *pool_grow(struct pool *p, void *items, size_t n, size_t *room, size_t need, size_t max,
                size_t item_size);

/// A terminated copy of text that need not be terminated. It ends at the first zero byte.
const char *pool_text(struct pool *p, struct bytes text);

void pool_done(struct pool *p);
