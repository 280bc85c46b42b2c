// The servers that this process is using: each one's session, and for sim: its private daemon.
//
// An entry lives as long as a connection to it, so the session ends when the server ends it too,
// and a private daemon ends with its last connection. Any thread.
#pragma once

#include "base/cleanup.h"
#include "client/link/connection.h"

/// A connection to `uri` after its hello, in the session of this process there (a new one if the
/// server does not know that any more), tended by the keep-alive thread.
int server_connect(const char *uri, struct connection **ret, struct error *e);

/// Another connection in the session of `other`, whose lock is held.
int server_connect_beside(const struct connection *other, struct connection **ret, struct error *e);

/// Closes a connection. NULL is fine.
void server_disconnect(struct connection *c);

CLEANUP_DEFINE(struct connection, server_disconnect)

void server_before_fork(void);
void server_after_fork(bool child);
