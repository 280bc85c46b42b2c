// The way of those who get what they want takes no lock.
#include "kserve/memory.h"

#include <stddef.h>

#include "base/clock.h"

static bool take_now(struct memory_share *s, uint64_t bytes)
{
    struct memory *m = s->of;
    if (atomic_fetch_add(&m->used, bytes) + bytes > m->most) {
        atomic_fetch_sub(&m->used, bytes);
        return false;
    }
    atomic_fetch_add(&s->held, bytes);
    return true;
}

bool memory_take(struct memory_share *s, uint64_t bytes, unsigned patience_ms)
{
    if (!s || !s->of || bytes == 0 || take_now(s, bytes))
        return true;
    struct memory *m = s->of;
    uint64_t until = clock_ms() + patience_ms;
    while (bytes <= m->most && m->make_room && clock_ms() < until) {
        m->make_room(m, s);
        if (take_now(s, bytes))
            return true;
    }
    return false;
}

void memory_give(struct memory_share *s, uint64_t bytes)
{
    if (!s || !s->of || bytes == 0)
        return;
    atomic_fetch_sub(&s->held, bytes);
    atomic_fetch_sub(&s->of->used, bytes);
    if (s->of->freed)
        s->of->freed(s->of);
}
