// A session: the connections of one client process, and the handles that are valid on them.
#pragma once

#include "base/list.h"
#include "protocol/message.h"
#include "server/clients/account.h"
#include "server/jobs/memory.h"
#include "server/scheduler/scheduler.h"

struct context;
struct origin;
struct connection;
struct user;

// All sessions of a daemon. Embedded by the server.
struct sessions {
    struct list all;
    unsigned n;
    uint64_t last_id;
    struct scheduler *scheduler;
    struct memories *memories;
};

// A context by its handle.
struct context_slot {
    struct context *context; // NULL: free
    uint64_t handle;
};

struct session {
    struct list link;
    struct sessions *all;
    unsigned refs; // connections and contexts
    struct user *user;
    struct list connections; // struct connection
    unsigned n_connections;
    bool ending; // by CLIENT_KILL: nobody joins it any more
    uint64_t id;
    char title[96]; // "detect (client 12 of alice)"
    struct account account;
    uint8_t secret[HELLO_SECRET_SIZE];
    struct scheduler_client scheduling;
    uint64_t jobs_done, jobs_failed, queue_us;
    struct context_slot *contexts; // by index
    uint32_t n_slots;
    uint32_t n_contexts; // open or being opened
    uint32_t generation; // of the last handle
    struct memory_table memories;
};

/// A new session of a program of the user, with one reference.
int session_new(struct sessions *all, struct user *user, const char *program, struct session **ret,
                struct error *e);

/// The session with this id, if the secret proves that it is the client's; else NULL.
struct session *session_find(struct sessions *all, uint64_t id,
                             const uint8_t secret[HELLO_SECRET_SIZE]);
struct session *session_ref(struct session *s);
void session_unref(struct session *s);

static inline void session_unref_p(struct session **s)
{
    session_unref(*s);
}

/// Whether a client may see another session without the right to see all: its own, and those of its
/// user. All local users have one address of the loopback interface, which is nobody's therefore.
bool session_is_visible(const struct session *s, const struct session *viewer,
                        const struct origin *origin);

/// Gives the context a handle (not 0, not soon used again).
int session_add(struct session *s, struct context *c, uint64_t *ret_handle, struct error *e);
void session_remove(struct session *s, uint64_t handle);

/// The context of a handle; NULL, with an error, if there is none.
struct context *session_context(struct session *s, uint64_t handle, struct error *e);
