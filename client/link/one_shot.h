// A connection for one question that belongs to no context.
#pragma once

#include "base/cleanup.h"
#include "client/link/connection.h"

/// A locked connection to the server (NULL: the one that contexts would use).
int one_shot_begin(const char *uri, struct connection **ret, struct error *e);

/// Unlocks and closes. NULL is fine.
void one_shot_end(struct connection *c);

CLEANUP_DEFINE(struct connection, one_shot_end)

/// One request over a connection of its own.
int one_shot_call(const char *uri, struct request *request, const void *message, struct error *e);
