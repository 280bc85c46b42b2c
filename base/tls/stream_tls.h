// A TLS session over a socket, as streams (base/net/stream.h) use it.
#pragma once

#include "base/tls/tls.h"

struct stream_tls {
    struct tls_context *context;
    struct tls *tls;
    int fd; // the stream's
};

/// Takes the context, also on failure, not the fd. `host`: tls_new().
int stream_tls_new(struct tls_context *context, int fd, const char *host, struct stream_tls **ret,
                   struct error *e);

/// Without a word to the other end. NULL is fine.
void stream_tls_free(struct stream_tls *s);
