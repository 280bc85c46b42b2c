// HTTP: takes requests apart with libmicrohttpd, a thread for each connection, within limits, and
// answers with what pages.h has.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "kserve/pages.h"

#define FRONT_MAX_SOCKETS 8

struct front_limits {
    uint32_t connections; // at once
    uint32_t request_s;   // for a request to come, or an answer to be taken
    uint64_t body;        // bytes, also when unpacked
    uint64_t memory;      // bytes of bodies that are there at once
};

struct front;

/// Serves on sockets that listen; they are its own then. All but the sockets outlives it.
int front_start(const struct site *site, const struct front_limits *limits, const int *sockets,
                unsigned n_sockets, struct front **ret, struct error *e);

/// No new connections, and none goes on behind its answer. Waits, at most this long, for requests
/// that are there; then ends everything.
void front_stop(struct front *f, uint32_t patience_s);
