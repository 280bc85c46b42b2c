// Small pieces are cut off blocks; large ones have a block of their own.
#include "quant/model/quant_pool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"

#define BLOCK ((size_t)64 << 10)
#define LARGE (BLOCK / 4)
#define ALIGN 16

struct quant_block {
    struct quant_block *next, *before; // before NULL: the first one
    _Alignas(ALIGN) char bytes[];
};

static char *quant_pool_block(struct quant_pool *p, size_t size)
{
    struct quant_block *b = calloc(1, sizeof *b + size);
    if (!b)
        return NULL;
    b->next = p->blocks;
    if (b->next)
        b->next->before = b;
    p->blocks = b;
    return b->bytes;
}

static size_t quant_pool_round(size_t bytes)
{
    return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
}

void *quant_pool_take(struct quant_pool *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = quant_pool_round(bytes);
    if (bytes > LARGE)
        return quant_pool_block(p, bytes);
    if (bytes > p->left) {
        char *fresh = quant_pool_block(p, BLOCK);
        if (!fresh)
            return NULL;
        p->at = fresh;
        p->left = BLOCK;
    }
    void *taken = p->at;
    p->at += bytes;
    p->left -= bytes;
    return taken;
}

void quant_pool_give(struct quant_pool *p, void *taken, size_t bytes)
{
    if (quant_pool_round(bytes) <= LARGE)
        return;
    struct quant_block *b = container_of(taken, struct quant_block, bytes);
    if (b->before)
        b->before->next = b->next;
    else
        p->blocks = b->next;
    if (b->next)
        b->next->before = b->before;
    free(b);
}

char *quant_pool_text(struct quant_pool *p, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = n < 0 ? NULL : quant_pool_take(p, (size_t)n + 1, 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, list);
    va_end(list);
    return text;
}

static void *pool_alloc(void *pool, size_t size)
{
    return quant_pool_take(pool, size, 1);
}

static void pool_free(void *pool, void *p)
{
    (void)pool;
    (void)p;
}

ProtobufCAllocator quant_pool_for_proto(struct quant_pool *p)
{
    return (ProtobufCAllocator){pool_alloc, pool_free, p};
}

void quant_pool_done(struct quant_pool *p)
{
    while (p->blocks) {
        struct quant_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
    *p = (struct quant_pool){0};
}
