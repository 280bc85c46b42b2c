// Users: whose programs share a quota, and device time with those of other users.
#pragma once

#include "base/list.h"
#include "base/who.h"
#include "server/clients/account.h"
#include "server/clients/quota.h"
#include "server/clients/rate.h"
#include "server/listen/origin.h"
#include "server/net/rounds.h"
#include "server/scheduler/scheduler.h"
#include "server/shelf/shelf_line.h"

struct identities;
struct identity;
struct options;

// All users that are there. Embedded by the server.
struct users {
    struct list all; // by number
    uint64_t last_number;
    const struct options *options; // the quotas
    struct scheduler *scheduler;
    struct accounts *accounts;
    const struct identities *identities;
};

// While somebody is connected, or the server has models that he brought.
struct user {
    struct list link;
    uint64_t number;
    unsigned refs;      // connections, sessions, models, uploads, memories, and who is subordinate
    struct user *owner; // whose he is (identities.h): they share turns and accounts; NULL: his own
    bool local;
    uid_t uid;                        // of a local one
    char source[ORIGIN_SOURCE_SIZE];  // of another: where it comes from
    char identity[TLS_IDENTITY_SIZE]; // of one who proved it by TLS; "": none
    char name[WHO_SIZE]; // as quotas name it: "alice", "1000", "tls/alice", "tcp", "usb"
    char title[ORIGIN_SOURCE_SIZE + 8]; // "alice", "tcp 10.0.0.7"
    struct quota quota;
    struct account account;
    struct rate rate;        // of what all his connections ask for
    struct rounds_line line; // in which these have their turns
    struct shelf_line shelf; // what he asks of the model store's disk
    uint64_t spared; // bytes on their way back that he, and whose owner he is, do not pay for
    uint64_t pushed; // the turn of the last push of his that began; 0: none
    struct scheduler_group scheduling;
    unsigned n_suspended; // runs
};

/// The user at the other end, with one reference. `who`: what is known of a local one
/// (identities.h) who is not there yet (user_is_there) and no operator.
int user_get(struct users *all, const struct origin *p, const struct identity *who,
             struct user **ret, struct error *e);

/// Whether he is; so nothing about him has to be looked up.
bool user_is_there(const struct users *all, const struct origin *p);

/// What he is called is known now.
void users_rename(struct users *all, uid_t uid, const char *name);

/// The options have other quotas: they are those of everyone from now on.
void users_update(struct users *all);

/// Who takes turns for him: himself, or whose he is.
struct user *user_person(struct user *u);

struct user *user_ref(struct user *u);
void user_unref(struct user *u);
