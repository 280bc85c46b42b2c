// Entering and leaving contexts: who may be inside of one, and when it ends.
//
//     context_enter()   number ─► reference (handle.c) ─► the connection's lock
//     context_leave()   unlock ─► drop the reference; the last one closes the context
//
// A context's lock is its connection's: one thread at a time is inside, and it does the
// connection's I/O itself. While a callback of the program runs, the context is lent: unlocked, but
// other threads wait in context_lock().
#include "client/api/context.h"

#include "client/link/keepalive.h"

uint64_t context_output_size(const struct context *c, uint32_t shape_set)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < c->info.n_outputs; i++)
        size += context_output_in(c, shape_set, i)->logical.size;
    return size;
}

// The borrower itself may come in: a callback may use the context it was called for.
void context_lock(struct context *c)
{
    pthread_mutex_lock(&c->connection->lock);
    while (c->lent && !pthread_equal(c->borrower, pthread_self()))
        pthread_cond_wait(&c->back, &c->connection->lock);
}

void context_unlock(struct context *c)
{
    pthread_mutex_unlock(&c->connection->lock);
}

void context_lend(struct context *c)
{
    c->lent = true;
    c->borrower = pthread_self();
    context_unlock(c);
}

// Locks without context_lock()'s wait: this thread is the one that the others wait for.
void context_take_back(struct context *c)
{
    pthread_mutex_lock(&c->connection->lock);
    c->lent = false;
    pthread_cond_broadcast(&c->back);
}

int context_check_free(const struct context *c, struct error *e)
{
    return c->lent ? error_set(e, STATUS_FAIL,
                               "a callback of a run of this context cannot wait for the context's "
                               "runs: they wait for the callback")
                   : 0;
}

bool context_has_pending(const struct context *c)
{
    for (size_t i = 0; i < LIMIT_RUNS; i++)
        if (c->runs[i].state == RUN_PENDING)
            return true;
    return false;
}

int context_enter_model(rknn_context number, struct context **ret, struct error *e)
{
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(number, &c, e);
    if (r < 0)
        return r;
    if (c->matmul)
        return error_set(e, STATUS_CTX_INVALID,
                         "0x%llx is the context of a matmul: use the rknn_matmul functions",
                         (unsigned long long)number);
    *ret = steal_ptr(c);
    return 0;
}

void context_leave(struct context *c)
{
    if (!c)
        return;
    context_unlock(c);
    handle_put(&c->handle);
}

// The test for a fork() comes before the lock, which in the child may be held by a thread that does
// not exist there.
int context_enter(rknn_context number, struct context **ret, struct error *e)
{
    struct context *c = (struct context *)handle_take(number);
    if (!c)
        return error_set(e, STATUS_CTX_INVALID,
                         "0x%llx is not a context: never opened, or destroyed already",
                         (unsigned long long)number);
    if (keepalive_is_inherited(c->connection)) {
        handle_put(&c->handle);
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "the context was opened before fork() and belongs to the parent; open "
                         "one in the child");
    }
    context_lock(c);
    if (c->connection->lost) {
        *e = c->connection->why;
        context_leave(c);
        return e->code;
    }
    *ret = c;
    return 0;
}

// From here on the number is invalid. The context itself is closed when the last call on it
// returns.
int context_end(rknn_context number, struct error *e)
{
    struct context *c = (struct context *)handle_remove(number);
    if (!c)
        return error_set(e, STATUS_CTX_INVALID,
                         "0x%llx is not a context: never opened, or destroyed already",
                         (unsigned long long)number);
    handle_put(&c->handle);
    return 0;
}

struct bound *context_bound(const struct context *c, bool output, uint32_t i)
{
    struct bound *b = &c->bound[output ? c->info.n_inputs + i : i];
    return b->mem ? b : NULL;
}

struct session_key {
    uint64_t id;
    const uint8_t *secret;
};

// Both id and secret: another server may have given the same id.
static bool is_of_session(const struct handle *h, const void *with)
{
    const struct context *c = (const struct context *)h;
    const rknnd_HelloReply *peer = &c->connection->peer;
    const struct session_key *key = with;
    return peer->session == key->id &&
           memcmp(peer->session_secret.bytes, key->secret, HELLO_SECRET_SIZE) == 0;
}

struct context *context_of_session(uint64_t session, const uint8_t secret[HELLO_SECRET_SIZE])
{
    struct session_key key = {session, secret};
    struct error unwanted;
    struct context *c = NULL;
    rknn_context number = handle_find(is_of_session, &key);
    return number && context_enter(number, &c, &unwanted) == 0 ? c : NULL;
}
