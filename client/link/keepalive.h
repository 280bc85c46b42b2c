// The keep-alive thread: heartbeats on connections that no call is using.
//
// One thread per process; it starts with the first connection and ends with the last, or with the
// process, all signals blocked. After fork() the child has no such thread, and the connections it
// inherited are its parent's: they are closed on the child's side, and the child starts anew.
#pragma once

#include "client/link/connection.h"

/// From here on `c`, whose hello is through, is tended.
int keepalive_add(struct connection *c, struct error *e);

/// No more. Called without the connection's lock, before connection_free().
void keepalive_remove(struct connection *c);

/// Whether `c` was opened on the other side of a fork(): nothing of it may be used, not even its
/// lock.
bool keepalive_is_inherited(const struct connection *c);

void keepalive_before_fork(void);
void keepalive_after_fork(bool child);
