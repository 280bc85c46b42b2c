// What a connection to a server is made of, for those who work on it: connection.c writes and
// reads, incoming.c takes what has been read apart.
//
//     greeting ──HELLO answered──► open ──Goodbye──► leaving ──┐
//        │                          │                          │
//        └─────────── end, silence, nonsense, no memory ───────┴──► lost
//
// greeting: peer.version is 0. leaving: answers still come, requests are refused. lost: all
// requests have ended with `why`; only connection_free() is left.
//
// A request goes through
//
//     sent ──► answered ──► done          no payload, or it goes where payload() says
//       │         │
//       │         └─► held ──► done       `hold`: the payload stays in the stream until it is taken
//       └─► part ──► part … ──► done      `in_parts`: each is served before the next may come
#pragma once

#include <pthread.h>

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
    bool part;     // one is there; the owner clears this before it lets the next one come
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
