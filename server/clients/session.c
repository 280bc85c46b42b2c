// Sessions and their handles.
//
// A session is one client process: all its connections share the handles of contexts and memories,
// so a program may open a context on one thread's connection and use it on another's. The first
// connection makes the session; later ones prove with its secret that they belong to it. It ends
// with the last reference: connections, contexts and jobs hold them, so it outlives its connections
// while something of it still runs.
#include "server/clients/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "server/clients/user.h"

// The secret is from the kernel's random generator: whoever knows it can use all that the session
// has.
// Who comes over the network without a name may be several people.
static void session_open_account(struct session *s, const char *program)
{
    bool several = !s->user->local && !*s->user->identity;
    snprintf(s->title, sizeof s->title, "%.40s (client %llu of %s)", program,
             (unsigned long long)s->id, s->user->title);
    account_init_program(&s->account, &s->user->account, several, s->title);
    s->account.quota = &s->user->quota.programs;
    s->account.quota_name = s->user->quota.user;
}

int session_new(struct sessions *all, struct user *user, const char *program, struct session **ret,
                struct error *e)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "a session", sizeof *s);
    if (getrandom(s->secret, sizeof s->secret, 0) != sizeof s->secret) {
        free(s);
        return error_set_errno(e, STATUS_FAIL, errno, "no random bytes for a session");
    }
    int r = account_charge(&user->account, ACCOUNT_SESSIONS, 1, e);
    if (r < 0) {
        free(s);
        return r;
    }
    s->user = s->memories.user = user_ref(user);
    s->all = all;
    s->refs = 1;
    s->id = ++all->last_id;
    session_open_account(s, program);
    list_init(&s->connections);
    scheduler_client_init(&s->scheduling, &user_person(s->user)->scheduling);
    list_append(&all->all, &s->link);
    all->n++;
    *ret = s;
    return 0;
}

// In constant time, so that a guess does not learn how many bytes are right.
static bool secrets_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < HELLO_SECRET_SIZE; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

// One without connections is not joined: only its last jobs are left.
static bool is_open(const struct session *s)
{
    return s->n_connections > 0 && !s->ending;
}

struct session *session_find(struct sessions *all, uint64_t id,
                             const uint8_t secret[HELLO_SECRET_SIZE])
{
    struct session *s;
    list_for_each (s, &all->all, link)
        if (s->id == id)
            return is_open(s) && secrets_equal(s->secret, secret) ? s : NULL;
    return NULL;
}

struct session *session_ref(struct session *s)
{
    s->refs++;
    return s;
}

// Memories may outlive the session, in another program's hands; their queues must not point to it.
static void give_up_queues(struct session *s)
{
    struct memory *m;
    list_for_each (m, &s->all->memories->all, link)
        if (m->queue_session == s)
            m->queue_session = NULL;
}

// With the last reference no job is left, so the scheduler has nothing of this client.
void session_unref(struct session *s)
{
    if (!s || --s->refs > 0)
        return;
    give_up_queues(s);
    account_refund(&s->account, ACCOUNT_BYTES, s->memories.bytes);
    account_refund(&s->account, ACCOUNT_MEMORIES, s->memories.n_memories);
    account_refund(&s->user->account, ACCOUNT_SESSIONS, 1);
    memory_table_done(&s->memories);
    scheduler_client_done(s->all->scheduler, &s->scheduling);
    list_remove(&s->link);
    s->all->n--;
    user_unref(s->user);
    explicit_bzero(s->secret, sizeof s->secret);
    free(s->contexts);
    free(s);
}

bool session_is_visible(const struct session *s, const struct session *viewer,
                        const struct origin *origin)
{
    return s == viewer || (s->user == viewer->user && (origin->local || origin->remote));
}

// New slots are zeroed: free.
static int session_grow(struct session *s, struct error *e)
{
    uint32_t n = s->n_slots;
    int r = array_reserve(s->contexts, s->n_slots, n + 1, "a session's contexts", e);
    if (r == 0)
        memset(s->contexts + n, 0, (s->n_slots - n) * sizeof *s->contexts);
    return r;
}

// A handle is a generation (high 32 bits), which changes with every handle, and the slot's index
// plus one (low 32 bits). The low half finds the slot, the whole is compared, so a stale handle is
// refused.
int session_add(struct session *s, struct context *c, uint64_t *ret_handle, struct error *e)
{
    uint32_t i = 0;
    while (i < s->n_slots && s->contexts[i].context)
        i++;
    if (i == s->n_slots) {
        int r = session_grow(s, e);
        if (r < 0)
            return r;
    }
    s->contexts[i] = (struct context_slot){c, (uint64_t)++s->generation << 32 | (i + 1)};
    *ret_handle = s->contexts[i].handle;
    return 0;
}

void session_remove(struct session *s, uint64_t handle)
{
    s->contexts[(uint32_t)handle - 1] = (struct context_slot){0};
}

// A context is found only by the session that opened it.
struct context *session_context(struct session *s, uint64_t handle, struct error *e)
{
    uint32_t i = (uint32_t)handle - 1;
    if ((uint32_t)handle && i < s->n_slots && s->contexts[i].handle == handle)
        return s->contexts[i].context;
    error_set(e, STATUS_CTX_INVALID, "there is no context 0x%llx in this session",
              (unsigned long long)handle);
    return NULL;
}
