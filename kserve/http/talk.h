// A connection's bytes: what has come and is not used yet, and what goes out. Blocks; who waits too
// long is ended by shutdown() from elsewhere (connections.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define TALK_HEAD_ROOM 16384 // bytes of a head, at most
#define TALK_ROOM      (TALK_HEAD_ROOM + 4096)

// What is kept in front is there as long as somebody points into it: method and address of the
// request whose body comes. A body that has come whole stays in the buffer, too, so that a small
// request costs one call and no memory.
struct talk {
    int socket;
    bool takes_fds;         // a Unix socket: its peer can pass descriptors
    _Atomic uint64_t moved; // bytes that have come and gone
    size_t kept;            // bytes in front that stay where they are: the head of this request
    size_t begin, end;      // what has come and is not used yet
    char buffer[TALK_ROOM + 1];
};

void talk_init(struct talk *t, int socket);

/// Makes room in front: the request before has ended.
void talk_next(struct talk *t);

/// Waits for more. False: the peer has gone, or the buffer is full.
bool talk_fill(struct talk *t);

/// What is there, without waiting. False: nothing is, or the peer has gone, or the buffer is full.
bool talk_fill_now(struct talk *t);
/// A line without its end, which is 0 then. NULL: there is none, for it is too long, does not end
/// as lines do, or the peer has gone.
char *talk_line(struct talk *t);

/// Exactly `n` bytes, what has come first. False: the peer has gone.
bool talk_take(struct talk *t, void *to, size_t n);

/// As many of `n` bytes as come within `ms`, or as there are; how many.
size_t talk_take_soon(struct talk *t, void *to, size_t n, unsigned ms);

/// All of it; the vectors are used up. False: the peer has gone.
bool talk_send(struct talk *t, struct iovec *iov, int n);
/// What goes without waiting; *n vectors are left. False: the peer has gone.
bool talk_send_now(struct talk *t, struct iovec **iov, int *n);

/// After the last answer: the peer is to read that before it hears that nobody reads what it sends.
void talk_end(struct talk *t);
