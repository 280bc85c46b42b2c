// Memory of one model: what is taken stays until all of it is given back.
#pragma once

#include <stddef.h>

struct quant_pool {
    struct quant_block *blocks;
    char *at; // free bytes of the newest small block
    size_t left;
};

/// `n` elements of `size` bytes, all zero, aligned for any type. NULL: out of memory.
void *quant_pool_take(struct quant_pool *p, size_t n, size_t size);

/// printf into memory of the pool. NULL: out of memory.
char *quant_pool_text(struct quant_pool *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void quant_pool_done(struct quant_pool *p);
