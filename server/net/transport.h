// What carries the bytes of a channel (channel.h), on the loop: a socket (transport_socket.h), TLS
// over one (transport_secure.h), or a channel of a cable (transport_mux.h).
#pragma once

#include <stdbool.h>
#include <sys/uio.h>
#include <uv.h>

struct rounds;
struct rounds_line;
struct transport;

struct transport_ops {
    /// As fd_send() and fd_receive() (base/fd.h). Only sockets carry fds.
    ssize_t (*send)(struct transport *w, const struct iovec *iov, int n_iov, const int *fds,
                    int n_fds);
    ssize_t (*receive)(struct transport *w, void *buffer, size_t size, int *fds, int *n_fds,
                       int max_fds);
    /// ready() is to come as long as one of these is the case: UV_READABLE (also at the end),
    /// UV_WRITABLE, UV_DISCONNECT (the peer is gone).
    void (*watch)(struct transport *w, int events);
    /// ready() is to come once, soon, whatever is the case then.
    void (*wake)(struct transport *w);
    /// ready() comes in turns with those of this line from now on; line NULL: at once again. NULL:
    /// this carrier's come at once.
    void (*line_up)(struct transport *w, struct rounds *rounds, struct rounds_line *line);
    /// Whether the other end cannot be reached any more (now_ms: uv_now()). NULL: that shows by
    /// itself, as the end or an error.
    bool (*is_gone)(struct transport *w, uint64_t now_ms);
    /// Who the other end has proved to be; "": nobody yet. NULL: this carrier cannot tell.
    const char *(*identity)(struct transport *w);
    /// The socket through which descriptors pass; -1: they do not, now or never. NULL: never.
    int (*passes)(struct transport *w);
    /// Sends nothing more, as the other end sees. NULL: this carrier has no such thing.
    void (*finish)(struct transport *w);
    /// Frees it, after closed() has come from the loop. Nothing else comes any more.
    void (*close)(struct transport *w);
};

struct transport {
    const struct transport_ops *ops;
    uv_loop_t *loop;
    void *owner;
    unsigned n_passed; // descriptors that have come, wanted or not
    /// `events`, of those that are watched, are the case; a negative `status` (of libuv's): it is
    /// broken. From the loop, never from inside of an operation. May close the transport.
    void (*ready)(struct transport *w, int status, int events);
    void (*closed)(struct transport *w); // may be NULL
};

static inline bool transport_is_gone(struct transport *w, uint64_t now_ms)
{
    return w->ops->is_gone && w->ops->is_gone(w, now_ms);
}

static inline const char *transport_identity(struct transport *w)
{
    return w->ops->identity ? w->ops->identity(w) : "";
}

static inline int transport_passes(struct transport *w)
{
    return w->ops->passes ? w->ops->passes(w) : -1;
}

static inline void transport_line_up(struct transport *w, struct rounds *rounds,
                                     struct rounds_line *line)
{
    if (w->ops->line_up)
        w->ops->line_up(w, rounds, line);
}

static inline void transport_close(struct transport *w)
{
    w->ops->close(w);
}
