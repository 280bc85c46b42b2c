#include "kserve/http/repeat.h"

#include <string.h>

void repeat_note(struct repeat *r, const char *head, size_t n)
{
    r->head = 0;
    if (n <= REPEAT_HEAD_ROOM)
        memcpy(r->text, head, n);
}

// What is not kept here is what needs more than a look at the body: who reads each request does
// that.
void repeat_keep(struct repeat *r, size_t n, const struct http_head *h, const struct body *b)
{
    size_t path = strlen(h->path) + 1;
    bool plain = h->stays && !h->is_1_0 && !h->expects && !h->is_chunked &&
                 h->packing == PACKING_NONE && h->length > 0 && h->tensors > 0;
    if (!plain || b->made || n > REPEAT_HEAD_ROOM || path > REPEAT_PATH_ROOM ||
        strcmp(h->method, "POST") != 0)
        return;
    memcpy(r->path, h->path, path);
    r->body = b->size;
    r->header = h->tensors;
    r->accepted = h->accepted;
    r->head = n;
}

bool repeat_is(const struct repeat *r, const struct talk *t)
{
    return r->head > 0 && t->end - t->begin == r->head + r->body &&
           memcmp(t->buffer + t->begin, r->text, r->head) == 0;
}
