// Who connects and is not known yet waits here, without a connection, until it is said who that is.
//
//   arrivals_take() ─┬─ operator, or his user is there ───────────────┐
//                    └─ arrival ─► identities_ask() ─► he is told ─┬──┴─► take()
//                                                                  └────► goodbye
//
// Nothing is read from it meanwhile, and no right of it is decided.
#pragma once

#include "server/clients/identities.h"
#include "server/clients/user.h"
#include "server/listen/listener.h"

// Embedded by the server, which fills it in. Loop thread only.
struct arrivals {
    struct listeners *listeners;
    struct users *users;
    struct identities *identities;
    /// Takes over the socket. `who`: as user_get() needs it.
    void (*take)(struct arrivals *all, int fd, const struct origin *origin,
                 const struct identity *who);
    /// One does not wait any more.
    void (*less)(struct arrivals *all);
    struct list all;
};

/// Takes over a connected stream socket: take() comes from inside or later, or it is sent away.
void arrivals_take(struct arrivals *all, int fd, const struct origin *origin);

/// Sends those away who wait.
void arrivals_dismiss(struct arrivals *all, const char *why);
