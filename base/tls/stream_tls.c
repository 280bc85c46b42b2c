// TLS over a socket that blocks or not, as its owner likes: the session asks for bytes and gets
// -EAGAIN from here, and its owner polls.
#include "base/tls/stream_tls.h"

#include <stdlib.h>

#include "base/fd.h"

static ssize_t socket_send(void *owner, const void *data, size_t size)
{
    const struct stream_tls *s = owner;
    return fd_send(s->fd, &(const struct iovec){(void *)data, size}, 1, NULL, 0);
}

static ssize_t socket_receive(void *owner, void *buffer, size_t size)
{
    const struct stream_tls *s = owner;
    int none = 0;
    return fd_receive(s->fd, buffer, size, NULL, &none, 0);
}

int stream_tls_new(struct tls_context *context, int fd, const char *host, struct stream_tls **ret,
                   struct error *e)
{
    struct stream_tls *s = calloc(1, sizeof *s);
    if (!s) {
        tls_context_free(context);
        return error_no_memory(e, "a TLS session", sizeof *s);
    }
    *s = (struct stream_tls){.context = context, .fd = fd};
    const struct tls_io io = {.send = socket_send, .receive = socket_receive, .owner = s};
    int r = tls_new(context, &io, host, &s->tls, e);
    if (r < 0)
        stream_tls_free(s);
    else
        *ret = s;
    return r;
}

void stream_tls_free(struct stream_tls *s)
{
    if (!s)
        return;
    tls_free(s->tls);
    tls_context_free(s->context);
    free(s);
}
