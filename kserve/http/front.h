// HTTP/1.1: accepts connections, each with a thread of its own, within limits.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "kserve/http/connections.h"
#include "kserve/pages.h"

#define FRONT_MAX_SOCKETS 8

struct front;

/// Serves on sockets that listen; they are its own then. All else outlives it.
int front_start(const struct site *site, const struct front_limits *limits, const int *sockets,
                unsigned n_sockets, struct front **ret, struct error *e);

/// No new connections, and none goes on behind its answer. Waits, at most this long, for requests
/// that are there; then ends everything.
void front_stop(struct front *f, uint32_t patience_s);
