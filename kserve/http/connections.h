// Connections and how long their peers may take: not how long they are silent, for a peer that
// sends a byte now and then never is. And the memory that all of them have together: where it is
// short, who is slow with much of it gives way.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "kserve/http/talk.h"
#include "kserve/memory.h"

struct front_limits {
    uint32_t connections; // at once
    uint32_t request_s;   // for a request to come, or an answer to be taken
    uint64_t body;        // bytes, also when unpacked
    uint64_t memory;      // bytes of bodies, of requests and answers, that are there at once
};

struct connection_watch; // all of them, with a thread

enum turn {
    TURN_ASK,    // the peer's: a request is to come, or comes
    TURN_WORK,   // ours
    TURN_ANSWER, // the peer's: it is to take the answer
};

struct watched {
    struct list link;
    struct talk *talk;
    enum turn turn;
    uint64_t since_ms;
    struct memory_share share;
    uint64_t moved;  // talk->moved at the end of the last period
    unsigned n_slow; // periods, one behind the other, in which less moved than from who is not slow
    bool waits;      // for memory
    bool gives_way;  // to another one
};

/// Where there are more than the limits say, one that has yet to ask gives way.
struct connection_watch *connection_watch_new(const struct front_limits *limits);
void connection_watch_free(struct connection_watch *w);

struct watched *connection_add(struct connection_watch *w, struct talk *talk);
void connection_remove(struct connection_watch *w, struct watched *c);

/// A turn begins.
void watched_turn(struct connection_watch *w, struct watched *c, enum turn turn);

/// Waits until everybody is to ask, or a time is over.
void connection_wait_idle(struct connection_watch *w, uint32_t patience_s);

/// Ends them wherever they are.
void connection_end_all(struct connection_watch *w);
