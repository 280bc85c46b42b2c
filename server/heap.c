#include "server/heap.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file/line.h"

#define HEAP_ASK_MS  500
#define HEAP_TRIM_MS 5000                // from one to the next
#define HEAP_HOLES   (UINT64_C(2) << 20) // bytes, that are worth it

static void heap_ask(struct heap *h, uint64_t now_ms)
{
    const struct mallinfo2 m = mallinfo2();
    h->allocated = m.uordblks + m.hblkhd;
    h->asked_ms = now_ms;
}

uint64_t heap_allocated(struct heap *h, uint64_t now_ms)
{
    if (!h->asked_ms || now_ms - h->asked_ms >= HEAP_ASK_MS)
        heap_ask(h, now_ms);
    return h->allocated;
}

// Memory of its own that is not allocated (proc(5), statm): holes, and what was there from the
// start or has pages of its own. False: the kernel does not tell.
static bool find_rest(struct heap *h, uint64_t now_ms, uint64_t *ret)
{
    char text[128], *at = text;
    uint64_t pages[3], own; // of all addresses, resident, shared with others or files
    if (!line_read("/proc/self/statm", text, sizeof text))
        return false;
    for (unsigned i = 0; i < 3; i++)
        pages[i] = strtoull(at, &at, 10);
    if (*at != ' ' || pages[1] < pages[2])
        return false;
    own = (pages[1] - pages[2]) * (uint64_t)sysconf(_SC_PAGESIZE);
    heap_ask(h, now_ms);
    *ret = own > h->allocated ? own - h->allocated : 0;
    return true;
}

// Libraries have their tables by now, and nobody has been connected.
void heap_init(struct heap *h, uint64_t now_ms)
{
    *h = (struct heap){0};
    find_rest(h, now_ms, &h->rest);
    h->least = h->rest;
}

// A rest that has shrunk by itself is the new one to go by: what comes on top of it later are holes
// again. When everybody has gone it does not count, since it may hold holes: beside models that
// threads had loaded a crowd's were few.
void heap_look(struct heap *h, uint64_t now_ms, bool last)
{
    uint64_t rest, known = last ? h->least : h->rest;
    if ((!last && now_ms - h->trimmed_ms < HEAP_TRIM_MS) || !find_rest(h, now_ms, &rest))
        return;
    if (rest > known + HEAP_HOLES) {
        malloc_trim(0);
        h->trimmed_ms = now_ms;
        find_rest(h, now_ms, &h->rest);
    } else if (rest < h->rest) {
        h->rest = rest;
    }
    h->least = h->rest < h->least ? h->rest : h->least;
}
