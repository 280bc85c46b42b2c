// Users: whose programs share a quota, and device time with those of other users.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/who.h"
#include "server/jobs/scheduler.h"
#include "server/net/quota.h"

struct server;

// Who is at the other end of a connection, by the kernel's word.
struct origin {
    bool local;  // a Unix socket: descriptors can pass
    bool remote; // another machine, by network: it may be gone without a word
    pid_t pid;   // of a local one, as uid
    uid_t uid;
    char text[64]; // for people: "unix, pid 12, uid 1000"
};

/// Whether the program of a local one is stopped, by a debugger or a signal. (What is frozen with
/// its control group is not told apart from what sleeps.)
bool origin_is_stopped(const struct origin *o);

/// Root, or the user that the service runs as, on this machine.
bool origin_is_operator(const struct origin *o);

// While somebody is connected.
struct user {
    struct list link;
    struct server *server;
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
int user_get(struct server *s, const struct origin *p, struct user **ret, struct error *e);
void user_unref(struct user *u);

/// Whether one context, or one request with so many bytes, or so many bytes more, fit the quota; if
/// not, words that name the limit. What is taken counts until it is given back.
int user_take_context(struct user *u, struct error *e);
int user_take_request(struct user *u, uint64_t bytes, struct error *e);
int user_take_bytes(struct user *u, uint64_t bytes, struct error *e);
void user_give_context(struct user *u);
void user_give_request(struct user *u, uint64_t bytes);
void user_give_bytes(struct user *u, uint64_t bytes);
