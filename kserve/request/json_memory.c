#include "kserve/request/json_memory.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/list.h"

// Bytes that it may want at once: for a string or a number. What it is given in pieces it reads
// from the token's begin again with each of them, so that one of megabytes would take it minutes.
#define LARGEST (256u << 10)

enum { NO_MEMORY = 1, TOO_LONG };

struct memory {
    jmp_buf out;
    struct list blocks;
};

struct block {
    struct list link;
    alignas(max_align_t) char bytes[];
};

static struct block *block_of(void *bytes)
{
    return bytes ? container_of(bytes, struct block, bytes) : NULL;
}

// A block that cannot grow stays in the list, and is freed with the others.
static void *get(void *user, void *bytes, size_t size)
{
    struct memory *m = user;
    struct block *old = block_of(bytes);
    if (size > LARGEST)
        longjmp(m->out, TOO_LONG);
    if (old)
        list_remove(&old->link);
    struct block *b = realloc(old, sizeof *b + size);
    if (b || old)
        list_append(&m->blocks, b ? &b->link : &old->link);
    if (!b)
        longjmp(m->out, NO_MEMORY);
    return b->bytes;
}

static void *get_new(void *user, size_t size)
{
    return get(user, NULL, size);
}

static void give_back(void *user, void *bytes)
{
    (void)user;
    if (!bytes)
        return;
    struct block *b = block_of(bytes);
    list_remove(&b->link);
    free(b);
}

// Nothing of this function changes between setjmp() and the jump.
static int run(struct memory *m, int (*work)(void *user, yajl_alloc_funcs *functions), void *user,
               struct error *e)
{
    yajl_alloc_funcs functions = {.malloc = get_new, .realloc = get, .free = give_back, .ctx = m};
    switch (setjmp(m->out)) {
    case 0:
        return work(user, &functions);
    case TOO_LONG:
        return error_set(e, STATUS_PARAM_INVALID,
                         "the JSON has a string or a number of more than %u bytes", LARGEST / 2);
    default:
        return error_no_memory(e, "JSON", 0);
    }
}

int json_memory_run(int (*work)(void *user, yajl_alloc_funcs *functions), void *user,
                    struct error *e)
{
    struct memory m;
    struct block *b;
    list_init(&m.blocks);
    int r = run(&m, work, user, e);
    while ((b = list_first(&m.blocks, struct block, link)))
        give_back(&m, b->bytes);
    return r;
}

// No string goes on behind the end of a line, and to all else that means nothing.
yajl_status json_complete(yajl_handle h)
{
    static const unsigned char end[] = "\n";
    yajl_status s = yajl_parse(h, end, 1);
    return s == yajl_status_ok ? yajl_complete_parse(h) : s;
}
