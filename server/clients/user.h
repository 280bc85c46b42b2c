// Users: whose programs share a quota, and device time with those of other users.
#pragma once

#include "base/list.h"
#include "base/who.h"
#include "server/clients/quota.h"
#include "server/jobs/scheduler.h"
#include "server/listen/origin.h"

struct options;

// All users that are there. Embedded by the server.
struct users {
    struct list all;
    const struct options *options; // the quotas
    struct scheduler *scheduler;
};

// While somebody is connected.
struct user {
    struct list link;
    unsigned refs; // sessions
    bool local;
    uid_t uid;           // of a local one
    char name[WHO_SIZE]; // "alice", "1000", "tcp"
    struct quota quota;
    unsigned n_contexts, n_in_flight;
    uint64_t bytes;
    struct scheduler_group scheduling;
};

/// The user at the other end, with one reference.
int user_get(struct users *all, const struct origin *p, struct user **ret, struct error *e);
void user_unref(struct user *u);

/// Whether one context, or one request with so many bytes, or so many bytes more, fit the quota; if
/// not, an error that names the limit. What is taken counts until it is given back.
int user_take_context(struct user *u, struct error *e);
int user_take_request(struct user *u, uint64_t bytes, struct error *e);
int user_take_bytes(struct user *u, uint64_t bytes, struct error *e);
void user_give_context(struct user *u);
void user_give_request(struct user *u, uint64_t bytes);
void user_give_bytes(struct user *u, uint64_t bytes);
