// HTTP requests as they come through a socket, which is this target's: whatever they are, what is
// understood is the same whether it comes at once, byte by byte or in small pieces.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kserve/http/body.h"

#define MOST_BODY 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

// All that was understood, in one number.
struct outcome {
    uint64_t sum;
    unsigned n;
};

static void note(struct outcome *o, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        o->sum = (o->sum ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    o->n++;
}

static void note_number(struct outcome *o, uint64_t n)
{
    note(o, &n, sizeof n);
}

static void note_head(struct outcome *o, const struct http_head *h)
{
    note(o, h->method, strlen(h->method) + 1);
    note(o, h->path, strlen(h->path) + 1);
    note_number(o, (uint64_t)h->length);
    note_number(o, (uint64_t)h->tensors);
    const bool flags[] = {h->is_1_0, h->stays, h->is_chunked, h->expects};
    note(o, flags, sizeof flags);
    note_number(o, h->packing);
    note_number(o, h->accepted);
}

// False: nothing more is understood.
static bool take_one(struct talk *t, struct outcome *o)
{
    struct memory memory = {.most = 2 * MOST_BODY};
    struct memory_share share = {.of = &memory};
    struct body b = {.share = &share};
    struct http_head h;
    struct error e = {0};
    unsigned code;
    talk_next(t);
    size_t n = head_wait(t, &code);
    note_number(o, code);
    if (n == 0)
        return false;
    char *head = t->buffer + t->begin;
    t->kept = t->begin += n;
    code = head_read(head, n, &h, &e);
    if (code == 0) {
        check(!(h.is_chunked && h.length >= 0) && h.length >= -1);
        code = body_read(&b, t, &h, MOST_BODY, &e);
        note_head(o, &h); // the body must not have moved it
    }
    note_number(o, code);
    check(code <= BODY_GONE || (code >= 400 && code < 600));
    if (code == 0) {
        check(b.size <= MOST_BODY &&
              (h.is_chunked || b.size == (size_t)(h.length > 0 ? h.length : 0)));
        note(o, b.bytes, b.size);
    }
    body_done(&b);
    check(memory.used == 0);
    return code == 0;
}

// ---- the socket ---------------------------------------------------------------------------------

static const uint8_t *coming;
static size_t n_coming, step;

ssize_t __wrap_recv(int socket, void *to, size_t n, int flags);
ssize_t __wrap_send(int socket, const void *from, size_t n, int flags);
ssize_t __wrap_sendmsg(int socket, const struct msghdr *m, int flags);

ssize_t __wrap_recv(int socket, void *to, size_t n, int flags)
{
    (void)socket, (void)flags;
    check(n > 0);
    n = n < n_coming ? n : n_coming;
    n = n < step ? n : step;
    memcpy(to, coming, n);
    coming += n;
    n_coming -= n;
    return (ssize_t)n;
}

ssize_t __wrap_send(int socket, const void *from, size_t n, int flags)
{
    (void)socket, (void)from, (void)flags;
    return (ssize_t)n;
}

ssize_t __wrap_sendmsg(int socket, const struct msghdr *m, int flags)
{
    ssize_t n = 0;
    (void)socket, (void)flags;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        n += (ssize_t)m->msg_iov[i].iov_len;
    return n;
}

static struct outcome talk_over(const uint8_t *data, size_t size, size_t each)
{
    static struct talk t;
    struct outcome o = {.sum = 0xcbf29ce484222325};
    coming = data;
    n_coming = size;
    step = each;
    talk_init(&t, -1);
    while (take_one(&t, &o))
        continue;
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct outcome whole = talk_over(data, size, size);
    for (size_t each = 1; each <= 7; each += 6) {
        struct outcome parts = talk_over(data, size, each);
        check(whole.sum == parts.sum && whole.n == parts.n);
    }
    return 0;
}
