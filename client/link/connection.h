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
#include <pthread.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/net/stream.h"
#include "protocol/message.h"

struct record;
struct server;

// A request on its way. Owned by the caller; it stays until it is done or the connection is freed.
struct request {
    // Set by the caller:
    uint16_t type;
    void *reply; // the row's reply message is decoded into it; NULL: not wanted
    /// Says where the answer's payload of `size` bytes (possibly 0) goes: fills up to
    /// FRAME_MAX_SEGMENTS segments, returns how many, or a negative status when the size is wrong,
    /// which loses the connection. Called after `reply` is filled. NULL: there may be none.
    int (*payload)(struct request *r, uint64_t size, struct iovec *segments, struct error *e);
    void *owner;
    bool
        hold; // a payload waits in the stream for connection_take(), as long as nothing else is due
    bool in_parts; // the answer may come in parts (flag MORE)
    /// Whoever waits on the connection when a part has come calls this, instead of returning from
    /// connection_wait_part(); clears `part` before the next one may come. The lock may be given up
    /// meanwhile.
    void (*serve)(struct request *r);
    const int
        *send_fd; // goes beside the request (duplicated), where the server takes it; NULL: none
    int *take_fd; // what comes beside the answer is put here, the caller's then; NULL: none
    // Results:
    bool part;     // one is there; the owner clears this before he lets the next one come
    bool answered; // `reply` is there
    bool done;     // and so is the payload
    int status;    // 0, or what the server (or the loss of it) answered, with words in `error`
    struct error error;
    uint64_t done_us; // clock_us(): when it was answered, then when it was done
    // The connection's:
    struct list link;
    uint32_t id;
};

struct connection {
    pthread_mutex_t lock;
    struct stream stream;
    char uri[256];
    struct server *server; // server.h: the one it belongs to
    struct record *record; // record.h; NULL: it is not recorded
    rknnd_HelloReply peer; // who answered, and its limits; zero before hello_exchange()
    bool acknowledges;     // TCP: the end of an answer may wait for that (base/net/tcp.h)
    struct frame_reader reader;
    struct frame_queue out;
    struct list waiting;      // requests without an answer
    struct request *incoming; // whose payload is being read
    struct request *to_serve; // has a part that nobody has served
    struct request *held; // whose payload waits in the stream: nothing is read until it is taken
    uint32_t next_id;
    unsigned n_pongs; // answers to Ping in `out`
    uint64_t last_sent_ms;
    uint64_t looked_ms;  // when it was last listened to
    uint64_t silence_ms; // of the server, while it was listened to
    bool lost, leaving;  // leaving: the server said Goodbye
    struct error why;
    struct list link;     // in the keep-alive's list
    unsigned fork_number; // keepalive.h
};

/// Takes `fd` (a connected stream socket; also on failure). `share`: it is a relay's, which takes
/// shared memory (stream.h).
int connection_new(int fd, bool share, const char *uri, struct connection **ret, struct error *e);

/// Says Goodbye if it still can, and closes. No request may be waited for any more.
void connection_free(struct connection *c);

/// Sends a request, with `message` of the row's request type and a payload, and returns when all of
/// it has been written, or all but the end that lies in an area of the stream (stream_posted()).
/// `r` is then waiting, unless this fails.
int connection_send(struct connection *c, struct request *r, const void *message,
                    const struct iovec *segments, int n_segments, struct error *e);

/// Waits until `r` is done (returns its status) or clock_ms() reaches `until` (STATUS_TIMEOUT; it
/// goes on and can be waited for again).
int connection_wait(struct connection *c, struct request *r, uint64_t until, struct error *e);

/// As connection_wait(), but a request with `hold` need only be answered.
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
