// Who local users are: their names, and whose a subordinate one is (subids.h). The system's user
// database may be on a network (NSS), and answer late or never: it is asked on threads that may
// hang, and nobody but who asks waits for that.
//
//   identities_ask() ─► lookup ─► thread: NSS ─► told()
//                          └── not in time ──────► told(): without a name, or refused
//
// No right hangs on a name that is looked up here: rules and quotas have users' numbers. So a user
// whose name does not come in time is called by his number, and is renamed if it comes later. Whose
// a subordinate one is has to be known. Root and the service's own user are known from the start.
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/list.h"
#include "base/who.h"
#include "server/clients/account.h"
#include "server/clients/subids.h"

struct identity {
    char name[WHO_SIZE]; // or his number
    bool owned;          // he is somebody else's
    uid_t owner;
    char owner_name[WHO_SIZE];
};

struct lookup;

// Who has asked. Embedded.
struct identity_asker {
    struct list link;
    uid_t uid;
    struct lookup *lookup; // that it waits for
    /// `who` NULL: it cannot be told, for this reason. May free the asker.
    void (*told)(struct identity_asker *a, const struct identity *who, const struct error *e);
};

// Embedded by the server. Loop thread only.
struct identities {
    struct accounts *accounts;
    struct subids subids;
    struct threads *threads;
    struct list all; // struct lookup
    unsigned n;
    uv_timer_t timer;
    char root[WHO_SIZE], own[WHO_SIZE]; // names
    /// A name has come for which nobody waits any more.
    void (*late)(struct identities *all, uid_t uid, const char *name);
};

/// Looks root and the service's own user up, which may wait. `subuid`: a path that stays.
void identities_init(struct identities *all, uv_loop_t *loop, struct accounts *accounts,
                     const char *subuid);
int identities_start(struct identities *all, uv_loop_t *loop, struct error *e);

/// Nobody may wait any more. What hangs is left alone.
void identities_stop(struct identities *all);
void identities_done(struct identities *all);

/// told() comes once, from inside or later. While it waits it is charged for a connection, with
/// others of this user: where there is no room for that it is refused, and told() does not come.
int identities_ask(struct identities *all, struct identity_asker *a, struct error *e);

/// Takes that back.
void identities_forget(struct identity_asker *a);

/// The name of root or the service's own user.
const char *identities_operator(const struct identities *all, uid_t uid);
