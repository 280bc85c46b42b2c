// A stream of bytes between two programs: a socket, TLS over one, or memory that both have mapped.
// The socket then carries no bytes of the stream; it wakes who waits, and its end is the stream's.
// Large parts need not even be copied into that memory: the end that offered it can also lend areas
// of its own, which the other end then reads in place.
//
// Nothing in the memory is trusted: whatever the other end does to it, it damages its own stream.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define STREAM_AREAS    32
#define STREAM_AREA_MIN (64u * 1024) // bytes of what is worth more than a copy
#define STREAM_WAIT_MS  200

struct stream_pipe;
struct stream_tls;

struct stream_area {
    uint8_t *bytes; // NULL: none
    uint64_t size;
};

// Embedded by its owner; one thread at a time.
struct stream {
    int fd;                    // -1: closed
    struct stream_tls *tls;    // seals what goes over the socket; NULL: it goes as it is
    bool may_share;            // the peer's first byte may bring memory
    bool waits;                // the socket blocks, for stream_receive_soon() alone
    bool ended;                // the peer has gone; what it wrote before is still there
    struct stream_pipe *pipes; // the memory, one pipe each way; NULL: a socket alone
    struct stream_pipe *in, *out;
    uint32_t n_in, n_out;       // bytes, modulo 2^32
    bool offered;               // by this end, which owns the areas
    bool broken;                // the peer has violated the protocol
    bool posting;               // part of an area is being sent
    uint32_t n_areas;           // that were lent so far
    uint32_t n_posted, n_taken; // parts of areas that were sent and received so far
    struct stream_area areas[STREAM_AREAS];
    struct stream_area part; // being received: what is left of it; being sent: all of it
    uint32_t part_area;      // its area's number
};

/// Takes `fd`, which becomes non-blocking. `may_share`: the peer decides (the relay's end).
void stream_init(struct stream *s, int fd, bool may_share);

/// From here on the stream is that of a TLS session over the socket, which it takes; the handshake
/// is done.
void stream_secure(struct stream *s, struct stream_tls *tls);

/// Nothing more is sent: where the stream can tell the other end so, it does. Never waits.
void stream_finish(struct stream *s);

/// Something has come that stream_receive() need not wait for.
bool stream_has_input(const struct stream *s);

/// Better words than those of the errno that stream_send() or stream_receive() gave; NULL: none.
const char *stream_why(const struct stream *s);

/// The fd, closed, is -1. Safe to repeat.
void stream_close(struct stream *s);

/// Shares memory with a peer that is known to take it, before anything is sent; without any to be
/// had it stays a socket.
void stream_share(struct stream *s);

/// Memory of `size` bytes that the peer can read too, where this end has offered to share: what
/// stream_send() is given out of it goes without a copy, and may be changed as soon as it has gone.
/// `number` is below STREAM_AREAS; an area that had it before is lent no longer. The caller's, to
/// munmap() once that is so, or the stream is closed. NULL: there is none.
void *stream_lend(struct stream *s, unsigned number, size_t size);

/// Bytes of a part of an area that is being sent: they stay as they are, and the peer reads them
/// whether or not stream_send() is called. 0: none.
uint64_t stream_posted(const struct stream *s);

/// Whether these are of area `number`.
bool stream_is_posted(const struct stream *s, unsigned number);

/// As fd_send() and fd_receive() (base/fd.h), never waiting. Only sockets carry fds. -EPROTO: the
/// peer violates the protocol.
ssize_t stream_send(struct stream *s, const struct iovec *iov, int n_iov, const int *fds,
                    int n_fds);
ssize_t stream_receive(struct stream *s, void *buffer, size_t size, int *fds, int *n_fds,
                       int max_fds);

/// stream_receive(), or stream_receive_soon().
typedef ssize_t stream_receiver(struct stream *s, void *buffer, size_t size, int *fds, int *n_fds,
                                int max_fds);

/// Lets stream_receive_soon() wait: the stream is a TCP socket alone, and stays one. A thread that
/// waits in recvmsg() on a Unix socket is also woken when the peer reads what was sent to it, which
/// costs both ends more than a poll(), which is not.
void stream_let_wait(struct stream *s);

/// Whether it does.
static inline bool stream_may_wait(const struct stream *s)
{
    return s->waits;
}

/// As stream_receive(), which it saves a poll() before: it waits for STREAM_WAIT_MS (-EAGAIN), or
/// until a signal comes (-EINTR). Only where stream_may_wait().
ssize_t stream_receive_soon(struct stream *s, void *buffer, size_t size, int *fds, int *n_fds,
                            int max_fds);

/// What to poll the fd for. `need`: bytes that are waited for, 0: none; fewer do not wake, unless
/// they are as many as there is room for. `room`: until something can be sent. With shared memory
/// any event may mean either, so stream_wake() and then both are tried.
short stream_events(struct stream *s, uint64_t need, bool room);

/// The fd has something: to be called before stream_receive() and stream_send().
void stream_wake(struct stream *s);

static inline bool stream_is_shared(const struct stream *s)
{
    return s->pipes;
}
