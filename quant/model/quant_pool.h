// Memory of one model: what is taken stays until all of it is given back.
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct quant_pool {
    struct quant_block *blocks;
    char *at; // free bytes of the newest small block
    size_t left;
};

/// `n` elements of `size` bytes, all zero, aligned for any type. NULL: out of memory.
void *quant_pool_take(struct quant_pool *p, size_t n, size_t size);

/// Gives back what was taken as `bytes` bytes, if that is much; else it stays, and is not to be
/// used either.
void quant_pool_give(struct quant_pool *p, void *taken, size_t bytes);

/// printf into memory of the pool. NULL: out of memory.
char *quant_pool_text(struct quant_pool *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// With it messages are unpacked into the pool, which outlives it. They are not to be freed.
ProtobufCAllocator quant_pool_for_proto(struct quant_pool *p);

void quant_pool_done(struct quant_pool *p);
