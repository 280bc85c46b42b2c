// A bounded queue of bytes in one circular buffer. It never grows: the mux's credit bounds what
// comes.
//
//     bytes:  | ....### | wraps to the front:  |##....### |
//                 ^first, n bytes from there on
#include "server/usb/ring.h"

#include <assert.h>
#include <stdlib.h>

void ring_init(struct ring *r, size_t limit)
{
    *r = (struct ring){.limit = limit};
}

void ring_done(struct ring *r)
{
    free(r->bytes);
    ring_init(r, r->limit);
}

// Copies in at most two parts: up to the end of the buffer, then from its start.
bool ring_put(struct ring *r, struct bytes data)
{
    if (!r->bytes && !(r->bytes = malloc(r->limit)))
        return false;
    assert(data.size <= r->limit - r->n);
    for (size_t done = 0; done < data.size;) {
        size_t at = (r->first + r->n) % r->limit;
        size_t part = size_min(data.size - done, r->limit - at);
        memcpy(r->bytes + at, data.data + done, part);
        r->n += part;
        done += part;
    }
    return true;
}

struct bytes ring_peek(const struct ring *r)
{
    if (r->n == 0)
        return (struct bytes){0};
    return (struct bytes){r->bytes + r->first, size_min(r->n, r->limit - r->first)};
}

// An empty ring starts at the front again, where the memory is still in the cache.
void ring_drop(struct ring *r, size_t n)
{
    assert(n <= r->n);
    r->n -= n;
    r->first = r->n > 0 ? (r->first + n) % r->limit : 0;
}
