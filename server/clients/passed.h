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
    uint64_t n;      // since all had been read; the second one and those behind it are charged
    uint64_t n_told; // of them, to the daemon that has taken this one's place
};

// Tells that daemon, which is to have the socket until they are read. False: not now.
typedef bool (*passed_teller)(void *owner, int socket, uint64_t n);

/// One more is about to be passed through `socket` (-1: none can be). `queued`: there are earlier
/// answers that are not sent yet. Fails if the user has too many on their way.
int passed_add(struct passed *p, struct user *user, int socket, bool queued, struct error *e);

/// The connection, which is not charged any more, closes: if there are some on their way the socket
/// is kept for `left`, charged as a connection.
void passed_leave(struct passed *p, struct user *user, int socket, struct list *left);

/// Of a connection of a daemon that has retired: tells of those that are charged and not told yet.
void passed_tell(struct passed *p, int socket, passed_teller tell, void *owner);

/// The same for `left`: those that are told are the other daemon's from then on.
void passed_tell_left(struct list *left, passed_teller tell, void *owner);

/// What a daemon before this one tells: `n` through `socket` (taken over), whose other end is of
/// `uid`, count for `user`, or, while he is not there (NULL), for all.
void passed_take(struct list *left, struct accounts *all, struct user *user, uid_t uid, int socket,
                 uint64_t n);

/// He is there now.
void passed_claim(struct list *left, struct user *user);

/// Lets go of those in `left` that have been read, or (`all`) of all.
void passed_sweep(struct list *left, bool all);
