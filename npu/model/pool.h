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

/// A terminated copy of text that need not be terminated. It ends at the first zero byte.
const char *pool_text(struct pool *p, struct bytes text);

void pool_done(struct pool *p);
