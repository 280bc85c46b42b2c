// Descriptors that were passed to a program which has not read them yet. The kernel counts them for
// the user of the daemon, not of the program: who has RLIMIT_NOFILE of them on their way can pass
// no other one, to nobody (unix(7), ETOOMANYREFS). They stay on their way when the daemon closes
// its socket, for as long as the program keeps its own. So they are charged to the program's user
// until they are read, and a connection that has ended is kept until then. Loop thread only.
#pragma once

#include "base/list.h"
#include "server/clients/user.h"

// Of a connection; all 0: none.
struct passed {
    uint64_t n; // since all had been read; the second one and those behind it are charged
};

/// One more is about to be passed through `socket` (-1: none can be). `queued`: there are earlier
/// answers that are not sent yet. Fails if the user has too many on their way.
int passed_add(struct passed *p, struct user *user, int socket, bool queued, struct error *e);

/// The connection, which is not charged any more, closes: if there are some on their way the socket
/// is kept for `left`, charged as a connection.
void passed_leave(struct passed *p, struct user *user, int socket, struct list *left);

/// Lets go of those in `left` that have been read, or (`all`) of all.
void passed_sweep(struct list *left, bool all);
