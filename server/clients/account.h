// What peers hold of the server, counted for each user, for all users of a kind, and in total.
//
// Everything is charged before it is taken and refunded when it goes, whichever way. A user may
// hold as much as he leaves to others, so that two who want more have a half and a quarter, and
// whoever comes next finds as much as the one before left. A user's programs have accounts below
// his. Part of everything is kept for those who look after the service. Loop thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

// X(NAME, key, what it is, in bytes, descriptors and worker processes that each takes along, status
// of a refusal). The key is its name in --quota, --limit and rknnctl status --limits.
// clang-format off
#define ACCOUNT_LIST(X)                                                                            \
    X(CONNECTIONS, "connections", "connections",             false, 1, 0, DEVICE_UNAVAILABLE)      \
    X(SESSIONS,    "sessions",    "sessions",                false, 0, 0, DEVICE_UNAVAILABLE)      \
    X(CONTEXTS,    "contexts",    "contexts",                false, 0, 0, MALLOC_FAIL)             \
    X(REQUESTS,    "in-flight",   "requests in flight",      false, 2, 0, DEVICE_UNAVAILABLE)      \
    X(BYTES,       "bytes",       "bytes in flight and in memories", true, 0, 0, MALLOC_FAIL)      \
    X(INTERNAL,    "internal",    "bytes of contexts",       true,  0, 0, MALLOC_FAIL)             \
    X(MEMORIES,    "memories",    "memories",                false, 1, 0, MALLOC_FAIL)             \
    X(UPLOADS,     "uploads",     "unfinished uploads",      false, 1, 0, MALLOC_FAIL)             \
    X(MODELS,      "models",      "models in use",           false, 1, 0, MALLOC_FAIL)             \
    X(STORAGE,     "storage",     "bytes of models and uploads", true, 0, 0, MALLOC_FAIL)          \
    X(STORED,      "stored",      "bytes of stored models",  true,  0, 0, MALLOC_FAIL)             \
    X(WORKERS,     "workers",     "loaded models",           false, 5, 1, MALLOC_FAIL)             \
    X(REPLIES,     "replies",     "bytes of unread answers", true,  0, 0, DEVICE_UNAVAILABLE)      \
    X(DUMPS,       "dumps",       "dumps",                   false, 0, 0, DEVICE_UNAVAILABLE)      \
    X(FOLLOWERS,   "followers",   "readers who wait for the log", false, 0, 0, DEVICE_UNAVAILABLE) \
    X(IMPORTS,     "imports",     "descriptors being looked at", false, 0, 0, DEVICE_UNAVAILABLE) \
    X(DESCRIPTORS, "descriptors", "file descriptors",        false, 0, 0, MALLOC_FAIL)             \
    X(THREADS,     "threads",     "threads of workers",      false, 0, 0, MALLOC_FAIL)
// clang-format on

enum account_resource {
#define X(NAME, key, words, bytes, descriptors, workers, status) ACCOUNT_##NAME,
    ACCOUNT_LIST(X)
#undef X
        ACCOUNT_RESOURCES
};

// Before a key: of each program of a user.
#define QUOTA_OF_PROGRAM "program."

// Amounts of everything; what 0 means is said where they are.
struct account_amounts {
    uint64_t of[ACCOUNT_RESOURCES];
};

// How much of what is kept an account may touch.
enum account_tier {
    ACCOUNT_ORDINARY,
    ACCOUNT_MEMBER,   // of the service's group, on this machine: half of what is kept, too
    ACCOUNT_OPERATOR, // root and the service's own user: all there is, whatever others leave
};

// Embedded by its owner.
struct account {
    struct account *parent;
    const char *name; // for words: "tcp 10.0.0.7"; stays with the owner
    enum account_tier tier;
    bool program;                        // one of a user's
    uint32_t leaves;                     // 1/leaves of what it could have it leaves to its siblings
    const char *quota_name;              // where the quota is from
    const struct account_amounts *quota; // 0: none, what others leave is the limit. NULL: all 0
    struct account_amounts used;
};

// All of a server's accounts hang on these. Embedded by the server.
struct accounts {
    struct account_amounts total; // all there is
    uint64_t worker_threads;      // of one worker
    struct account all, operators, network;
};

void accounts_init(struct accounts *all);

/// Everything of it must be refunded by the time that it goes.
void account_init(struct account *a, struct account *parent, const char *name);

/// That of one program of the user whose account is `user`. Where programs may be those of
/// several people (`several`) it leaves half of what there is to others, else an eighth.
void account_init_program(struct account *a, struct account *user, bool several, const char *name);

/// Takes n more, for the account and for those that it belongs to, with the descriptors and threads
/// that go with it. Nothing is taken on failure, and the words say whose limit it was.
int account_charge(struct account *a, enum account_resource what, uint64_t n, struct error *e);

/// Gives n back.
void account_refund(struct account *a, enum account_resource what, uint64_t n);

/// The same for one of a thing (`what`) and its bytes (of `sized`): both are taken, or nothing.
int account_charge_sized(struct account *a, enum account_resource what, enum account_resource sized,
                         uint64_t bytes, struct error *e);
void account_refund_sized(struct account *a, enum account_resource what,
                          enum account_resource sized, uint64_t bytes);

/// What somebody held is another's from now on, whatever his limits.
void account_move(struct account *from, struct account *to, enum account_resource what, uint64_t n);

/// For what is known only when it is there: makes *counted, which was charged, `now`.
void account_count(struct account *a, enum account_resource what, uint64_t *counted, uint64_t now);

/// Whether the account may have more of it at present.
bool account_has_room(const struct account *a, enum account_resource what);

/// How much the account may have at present, what it has included.
uint64_t account_limit(const struct account *a, enum account_resource what);

// ---- names --------------------------------------------------------------------------------------

const char *account_key(enum account_resource what);
bool account_is_bytes(enum account_resource what);

/// Whether it is counted for programs; what the programs of a user share is not.
bool account_is_of_programs(enum account_resource what);

/// By its key; ACCOUNT_RESOURCES if there is none.
enum account_resource account_find(const char *key);
