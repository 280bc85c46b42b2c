// What a client may do, by who it is: the option --rights, `WHO:RIGHT[,RIGHT]…`. Which right a
// message needs is a column of the table in handle/handle.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "server/listen/origin.h"

#define RIGHTS_MAX_RULES 63 // ORIGIN_SOCKET_GROUP is behind them

// X(NAME, name, bit)
#define RIGHTS_LIST(X)                                                                             \
    X(RUN, "run", 1)         /* models, contexts, memory */                                        \
    X(SEE_OWN, "see-own", 2) /* what is one's own, and how much of everything is in use */         \
    X(SEE_ALL, "see-all", 4) /* programs, models and users of others; the log */                   \
    X(KILL, "kill", 8)       /* programs of others */                                              \
    X(DEBUG, "debug", 16)    /* what concerns everyone: how much is logged */                      \
    X(PUSH, "push", 32)      /* the model store: what it has, and copies of it */

enum right {
#define X(NAME, name, bit) RIGHT_##NAME = bit,
    RIGHTS_LIST(X)
#undef X
        RIGHTS_ALL = 63,
};

// One --rights. WHO: a user's name or number, "@" and a group's, "tls/" and an identity, "tls",
// "tcp", "usb", or "*".
struct rights_rule {
    char who[34];
    unsigned rights;
};

// All of them. Embedded in the options.
struct rights {
    struct rights_rule rules[RIGHTS_MAX_RULES];
    gid_t groups[RIGHTS_MAX_RULES]; // of the rules for groups, as origin.groups numbers them
    uid_t users[RIGHTS_MAX_RULES];  // of the rules for local users; else -1
    uint32_t n;
};

/// Adds a rule. A user or group that the system does not know, or who has a rule, is refused.
int rights_add(struct rights *all, const char *text, struct error *e);

/// Removes the rule for that WHO, if there is one.
void rights_remove(struct rights *all, const char *who);

/// What the program at the other end may do. `name`: of its user (user.h), where that is no local
/// one. Operators may do everything. Others may do what the rules for them, and for groups of
/// theirs, say together; where there is none, what the rule for tcp, usb or * says; where there is
/// none, local programs run and see everything, those of the network run and see what is theirs.
unsigned rights_of(const struct rights *all, const struct origin *o, const char *name);

/// Words, if a right is not among these.
int rights_check(unsigned rights, unsigned needed, struct error *e);
