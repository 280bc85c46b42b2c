// Payloads of unknown size, taken into one malloc'ed block with a 0 behind it (for texts). The
// limit keeps a server from making this process allocate without bound.
#include "client/link/payload.h"

int payload_take(struct request *r, uint64_t size, struct iovec *segments, struct error *e)
{
    struct payload *p = r->owner;
    if (size > p->limit)
        return error_set(e, STATUS_FAIL, "a payload of %llu bytes, at most %zu are possible",
                         (unsigned long long)size, p->limit);
    p->size = (size_t)size;
    p->data = malloc(p->size + 1);
    if (!p->data)
        return error_no_memory(e, "an answer", p->size);
    p->data[p->size] = 0;
    segments[0] = (struct iovec){p->data, p->size};
    return 1;
}
