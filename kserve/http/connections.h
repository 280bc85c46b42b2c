// Connections and how long their peers may take: libmicrohttpd itself knows only silence, and a
// peer that sends a byte now and then is never silent.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct connection_watch; // all of them, with a thread

enum turn {
    TURN_ASK,    // the peer's: a request is to come, or comes
    TURN_WORK,   // ours
    TURN_ANSWER, // the peer's: it is to take the answer
};

struct watched {
    struct list link;
    int socket;
    enum turn turn;
    uint64_t since_ms;
    bool gives_way; // to another one
};

/// Where there are more than `most`, one that has yet to ask gives way.
struct connection_watch *connection_watch_new(uint32_t patience_s, unsigned most);
void connection_watch_free(struct connection_watch *w);

struct watched *connection_add(struct connection_watch *w, int socket);
void connection_remove(struct connection_watch *w, struct watched *c);

/// A turn begins.
void watched_turn(struct connection_watch *w, struct watched *c, enum turn turn);

/// Waits until everybody is to ask, or a time is over.
void connection_wait_idle(struct connection_watch *w, uint32_t patience_s);
