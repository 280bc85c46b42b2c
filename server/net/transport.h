// What carries the bytes of a channel (channel.h), on the loop: a socket (transport_socket.h) or a
// channel of a cable (transport_mux.h).
#pragma once

#include <stdbool.h>
#include <sys/uio.h>
#include <uv.h>

struct wire;

struct wire_ops {
    /// As fd_send() and fd_receive() (base/fd.h). Only sockets carry fds.
    ssize_t (*send)(struct wire *w, const struct iovec *iov, int n_iov, const int *fds, int n_fds);
    ssize_t (*receive)(struct wire *w, void *buffer, size_t size, int *fds, int *n_fds,
                       int max_fds);
    /// ready() is to come as long as one of these is the case: UV_READABLE (also at the end),
    /// UV_WRITABLE, UV_DISCONNECT (the peer is gone).
    void (*watch)(struct wire *w, int events);
    /// ready() is to come once, soon, whatever is the case then.
    void (*wake)(struct wire *w);
    /// Whether the other end cannot be reached any more (now_ms: uv_now()). NULL: that shows by
    /// itself, as the end or an error.
    bool (*is_gone)(struct wire *w, uint64_t now_ms);
    /// Frees it, after closed() has come from the loop. Nothing else comes any more.
    void (*close)(struct wire *w);
};

struct wire {
    const struct wire_ops *ops;
    uv_loop_t *loop;
    void *owner;
    /// `events`, of those that are watched, are the case; a negative `status` (of libuv's): it is
    /// broken. From the loop, never from inside of an operation. May close the wire.
    void (*ready)(struct wire *w, int status, int events);
    void (*closed)(struct wire *w); // may be NULL
};

static inline bool wire_is_gone(struct wire *w, uint64_t now_ms)
{
    return w->ops->is_gone && w->ops->is_gone(w, now_ms);
}

static inline void wire_close(struct wire *w)
{
    w->ops->close(w);
}
