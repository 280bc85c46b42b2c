// Memory that is freed all at once. Blocks are in a list, newest first; pieces are cut off the head
// block:
//
//      pool -> [ header | piece | piece | free ] -> [ header | one large piece ] -> ...
//
// Everything is zeroed. Not for several threads at a time.
#include "npu/model/pool.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/process/large_pages.h"

#define SMALL_BLOCK (64 * 1024)
#define ALIGNMENT   64
#define WIDE        512 // pieces of so many bytes are aligned fully

struct pool_block {
    struct pool_block *next;
    uint8_t *data; // behind this, aligned
    size_t size, used;
};

// The data begin at an aligned address behind the header, of a large page if they fill one: else
// they might have none, and each 4 KB would be a page fault while a model is loaded. NULL: no
// memory, or overflow.
static struct pool_block *block_new(size_t size)
{
    size_t total, alignment = size >= LARGE_PAGE ? LARGE_PAGE : ALIGNMENT;
    if (__builtin_add_overflow(size, sizeof(struct pool_block) + alignment, &total))
        return NULL;
    // Large blocks come zeroed from the kernel: their pages are not touched here.
    struct pool_block *b = calloc(1, total);
    if (!b)
        return NULL;
    uintptr_t data = (uintptr_t)(b + 1);
    b->data = (uint8_t *)(b + 1) + (alignment - data % alignment) % alignment;
    b->size = size;
    large_pages_ask(b->data, size);
    return b;
}

// Pieces of 512 bytes and more (weights, tables that SIMD code reads) are aligned to a cache line,
// small ones to 16 bytes.
void *pool_alloc(struct pool *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    size_t unit = bytes >= WIDE ? ALIGNMENT : 16;
    bytes = align_up(bytes, unit);
    struct pool_block *b = p->blocks;
    if (b)
        b->used = align_up(b->used, unit);
    if (!b || b->used > b->size || b->size - b->used < bytes) {
        bool large = bytes > SMALL_BLOCK / 4;
        struct pool_block *fresh = block_new(large ? bytes : SMALL_BLOCK);
        if (!fresh)
            return NULL;
        // A large piece has its own block, behind the one that still has room.
        struct pool_block **where = large && b ? &b->next : &p->blocks;
        fresh->next = *where;
        *where = fresh;
        b = fresh;
    }
    void *piece = b->data + b->used;
    b->used += bytes;
    p->total += bytes;
    return piece;
}

void *pool_grow(struct pool *p, void *items, size_t n, size_t *room, size_t need, size_t max,
                size_t item_size)
{
    if (need <= *room)
        return items;
    size_t next = array_next_room(*room, need, max, item_size);
    void *fresh = next ? pool_alloc(p, next, item_size) : NULL;
    if (!fresh)
        return NULL;
    if (n)
        memcpy(fresh, items, n * item_size);
    *room = next;
    return fresh;
}

const char *pool_text(struct pool *p, struct bytes text)
{
    char *copy = pool_alloc(p, text.size + 1, 1);
    if (copy)
        memcpy(copy, text.data, text.size);
    return copy;
}

void pool_done(struct pool *p)
{
    while (p->blocks) {
        struct pool_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
    *p = (struct pool){0};
}
