// One request of a connection and its answer.
#pragma once

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kserve/http/body.h"
#include "kserve/http/connections.h"
#include "kserve/http/repeat.h"
#include "kserve/model/quick_run.h"
#include "kserve/pages.h"

// What all connections have in common.
struct exchange_site {
    const struct site *site;
    uint64_t max_body; // bytes, also when unpacked
    struct connection_watch *watch;
    atomic_bool ends; // no connection goes on behind its answer
};

// A connection, which one thread serves from its begin to its end; but what repeats itself it
// leaves to others (gather.h), and waits meanwhile. What it keeps from request to request is its
// own, so that nobody has to lock it.
struct guest {
    struct watched *watched;
    struct seat seat;
    struct request_kept *kept; // for infer()
    struct repeat repeat;
    struct quick_run run; // under way, if it has a model
    struct reply_rest {
        uint8_t *bytes; // of an answer, which are to be sent; malloc'ed
        size_t size;
    } rest;
    sem_t back;   // it is its own thread's again
    bool goes_on; // then
    struct talk talk;
};

/// Waits for a request and answers it. False: the connection is to end.
bool exchange(struct exchange_site *s, struct guest *g);

// In parts, none of which waits, for what is asked as the last time.

/// Begins one if it has come. False: it is for exchange(), with all that has come.
bool exchange_begin(struct exchange_site *s, struct guest *g);

/// Answers what has been begun, as soon as its run has ended. False: the connection is to end. What
/// the peer does not take at once is left in g->rest.
bool exchange_end(struct exchange_site *s, struct guest *g);

/// Sends the rest. Waits. False: the connection is to end.
bool exchange_send_rest(struct exchange_site *s, struct guest *g);
