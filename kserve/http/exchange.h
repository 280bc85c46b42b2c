// One request of a connection and its answer.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "kserve/http/body.h"
#include "kserve/http/connections.h"
#include "kserve/pages.h"

// What all connections have in common.
struct exchange_site {
    const struct site *site;
    uint64_t max_body; // bytes, also when unpacked
    struct connection_watch *watch;
    atomic_bool ends; // no connection goes on behind its answer
};

// A connection, which one thread serves from its begin to its end. What it keeps from request to
// request is its own, so that nobody has to lock it.
struct guest {
    struct watched *watched;
    struct seat seat;
    struct request_kept *kept; // for infer()
    struct talk talk;
};

/// Waits for a request and answers it. False: the connection is to end.
bool exchange(struct exchange_site *s, struct guest *g);
