// A connection to a server: requests out, answers in, heartbeats both ways.
//
// There is no I/O thread. Who makes a request writes and reads the socket itself, holding the
// connection's lock for the whole call; connections that no call is using are tended by the
// keep-alive thread (keepalive.h), which takes the lock only when it is free. So all functions but
// new and free are called with the lock held.
//
// A connection is lost for good by the first thing that goes wrong with the stream: end of file, a
// malformed answer, silence. All requests on it, waiting or new, then fail with
// STATUS_DEVICE_UNAVAILABLE and the same words.
#pragma once

#include <poll.h>

#include "base/clock.h"
#include "client/link/connection_state.h"

/// Takes `fd` (a connected stream socket; also on failure). `share`: it is a relay's, which takes
/// shared memory (stream.h).
int connection_new(int fd, bool share, const char *uri, struct connection **ret, struct error *e);

/// Says Goodbye if it still can, and closes. No request may be waited for any more.
void connection_free(struct connection *c);

/// Sends a request, with `message` of the row's request type and a payload, and returns when all of
/// it has been written, or all but the end that is in a shared area of the stream
/// (stream_posted()). `r` is then waiting, unless this fails.
int connection_send(struct connection *c, struct request *r, const void *message,
                    const struct iovec *segments, int n_segments, struct error *e);

/// Waits until `r` is done (returns its status) or clock_ms() reaches `until` (STATUS_TIMEOUT; the
/// request continues and can be waited for again).
int connection_wait(struct connection *c, struct request *r, uint64_t until, struct error *e);

/// Takes what has come, without waiting: for who has had something else to do since it asked.
void connection_look(struct connection *c);

/// As connection_wait(), but a request with `hold` need only be answered, and where the program
/// interrupts other waits (wait_end.h), which loses the connection, this one is STATUS_FAIL and
/// can be made again.
int connection_wait_answer(struct connection *c, struct request *r, uint64_t until,
                           struct error *e);

/// As connection_wait(), but a request with `in_parts` need only have a part of its answer.
int connection_wait_part(struct connection *c, struct request *r, uint64_t until, struct error *e);

/// Reads the payload that `r`, the held request, waits for into `segments` instead of where
/// r->payload() would put it, and returns when it is there.
int connection_take(struct connection *c, struct request *r, const struct iovec *segments, int n,
                    struct error *e);

/// Drops the payload that `r`, the held request, waits for, and returns when it has passed.
int connection_drop(struct connection *c, struct request *r, struct error *e);

/// Sends a request that is not answered, with a payload.
void connection_tell(struct connection *c, uint16_t type, const void *message,
                     const struct iovec *segments, int n_segments);

/// connection_send() without payload and connection_wait() for as long as the server lives.
int connection_call(struct connection *c, struct request *r, const void *message, struct error *e);

/// Reads and answers what has come, sends a heartbeat that is due, and notices a silent server.
/// Does not block.
void connection_tend(struct connection *c);

/// As connection_tend(), and serves a part that has come. What to poll() the socket for before the
/// next time is put into *ret.
void connection_attend(struct connection *c, struct pollfd *ret);

/// Ends the connection with these words (the server's URI is put in front).
void connection_lose(struct connection *c, const struct error *why);
