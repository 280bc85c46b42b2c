// The table of handles: numbers by which programs name contexts.
//
//     number = generation << 16 | (slot + 1)          0 is never a number
//
// A slot's generation grows each time its number ends, so that an old number does not find the
// slot's next object. Free slots are a list through next_free. One lock, held for a few lines;
// nothing else is taken inside (fork_modules.c).
#include "client/handle.h"

#include <pthread.h>

#include "base/array.h"

#define INDEX_BITS 16
#define MAX_SLOTS  ((1u << INDEX_BITS) - 1)
#define NO_SLOT    UINT32_MAX

struct slot {
    struct handle *handle; // NULL: free
    uint32_t generation;
    uint32_t next_free;
};

static struct {
    pthread_mutex_t lock;
    struct slot *slots;
    uint32_t n_slots, room, free;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .free = NO_SLOT};

// Grows the table and puts the new slots on the free list, the lowest first.
static int handle_grow(struct error *e)
{
    uint32_t n = table.n_slots;
    if (n == MAX_SLOTS)
        return error_set(e, STATUS_MALLOC_FAIL, "%u contexts are open, no more are possible", n);
    int r = array_reserve(table.slots, table.room, n + 1, "the table of contexts", e);
    if (r < 0)
        return r;
    table.n_slots = table.room < MAX_SLOTS ? table.room : MAX_SLOTS;
    for (uint32_t i = table.n_slots; i-- > n;) {
        table.slots[i] = (struct slot){.generation = 1, .next_free = table.free};
        table.free = i;
    }
    return 0;
}

int handle_add(struct handle *h, struct error *e)
{
    pthread_mutex_lock(&table.lock);
    int r = table.free == NO_SLOT ? handle_grow(e) : 0;
    if (r == 0) {
        uint32_t i = table.free;
        struct slot *s = &table.slots[i];
        table.free = s->next_free;
        s->handle = h;
        h->refs = 1;
        h->number = (rknn_context)s->generation << INDEX_BITS | (rknn_context)(i + 1);
    }
    pthread_mutex_unlock(&table.lock);
    return r;
}

// Any number may come in: the index is checked, and 0 wraps to a large one. The lock is held.
static struct slot *handle_find_slot(rknn_context number)
{
    uint32_t index = (uint32_t)(number & MAX_SLOTS) - 1;
    if (index >= table.n_slots)
        return NULL;
    struct slot *s = &table.slots[index];
    return s->handle && s->handle->number == number ? s : NULL;
}

struct handle *handle_take(rknn_context number)
{
    pthread_mutex_lock(&table.lock);
    struct slot *s = handle_find_slot(number);
    struct handle *h = s ? s->handle : NULL;
    if (h)
        h->refs++;
    pthread_mutex_unlock(&table.lock);
    return h;
}

rknn_context handle_find(bool (*matches)(const struct handle *h, const void *with),
                         const void *with)
{
    rknn_context found = 0;
    pthread_mutex_lock(&table.lock);
    for (uint32_t i = 0; i < table.n_slots && !found; i++)
        if (table.slots[i].handle && matches(table.slots[i].handle, with))
            found = table.slots[i].handle->number;
    pthread_mutex_unlock(&table.lock);
    return found;
}

struct handle *handle_remove(rknn_context number)
{
    pthread_mutex_lock(&table.lock);
    struct slot *s = handle_find_slot(number);
    struct handle *h = s ? s->handle : NULL;
    if (h) {
        s->handle = NULL;
        s->generation++;
        s->next_free = table.free;
        table.free = (uint32_t)(s - table.slots);
    }
    pthread_mutex_unlock(&table.lock);
    return h;
}

// end() is called without the lock: it closes the object, which may take long.
void handle_put(struct handle *h)
{
    pthread_mutex_lock(&table.lock);
    bool last = --h->refs == 0;
    pthread_mutex_unlock(&table.lock);
    if (last)
        h->end(h);
}

void handle_before_fork(void)
{
    pthread_mutex_lock(&table.lock);
}

void handle_after_fork(bool child)
{
    (void)child;
    pthread_mutex_unlock(&table.lock);
}
