// Contexts: their making, their end, and who may be inside.
#include "client/api/context.h"

#include "client/api/callbacks.h"
#include "client/api/mem.h"
#include "client/fork.h"
#include "client/link/keepalive.h"
#include "client/link/payload.h"
#include "client/link/servers.h"
#include "client/matmul/matmul.h"
#include "protocol/tensor_message.h"

static void context_free(struct context *c)
{
    if (!c)
        return;
    callbacks_free(c->callbacks);
    server_disconnect(c->connection);
    pthread_cond_destroy(&c->back);
    for (uint32_t i = 0; c->inputs && i < c->info.n_inputs; i++)
        input_free(&c->inputs[i]);
    for (uint32_t i = 0; c->bound && i < c->info.n_inputs + c->info.n_outputs; i++)
        mem_put(c->bound[i].mem);
    mem_put(c->internal);
    for (size_t i = 0; i < LIMIT_RUNS; i++)
        free(c->runs[i].outputs);
    free(c->bound);
    free(c->inputs);
    free(c->tensors);
    free(c->perf_text);
    matmul_free(c->matmul);
    free(c);
}

CLEANUP_DEFINE(struct context, context_free)

uint64_t context_output_size(const struct context *c, uint32_t row)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < c->info.n_outputs; i++)
        size += context_output_in(c, row, i)->logical.size;
    return size;
}

static uint64_t elements(const struct context *c, uint32_t row)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < c->info.n_inputs; i++)
        n += context_input_in(c, row, i)->logical.n_elems;
    return n;
}

// The largest shapes are those that a program sees first, so that it makes enough memory (SDK guide
// 5.4.4.2), and those that a context begins with.
static int survey_rows(struct context *c, struct error *e)
{
    for (uint32_t row = 0; row < c->info.n_rows; row++) {
        uint64_t size = context_output_size(c, row);
        if (size > c->connection->peer.limits.payload_size)
            return error_set(e, STATUS_FAIL, "outputs of %llu bytes are more than it sends at once",
                             (unsigned long long)size);
        c->output_room = size > c->output_room ? size : c->output_room;
        if (elements(c, row) > elements(c, c->largest_row))
            c->largest_row = row;
    }
    c->row = c->largest_row;
    return 0;
}

static int take_info(struct context *c, struct bytes list, struct error *e)
{
    rknnd_ContextInfo *info = &c->info;
    uint32_t n, per_row;
    message_make_printable(info->estimate_chip);
    info->n_rows = info->n_rows ? info->n_rows : 1;
    if (info->n_outputs == 0 || __builtin_add_overflow(info->n_inputs, info->n_outputs, &per_row) ||
        __builtin_mul_overflow(per_row, info->n_rows, &n) || info->n_rows > LIMIT_ROWS)
        return error_set(e, STATUS_FAIL, "%u inputs and %u outputs in %u rows of shapes",
                         info->n_inputs, info->n_outputs, info->n_rows);
    int r = tensor_list_decode(list, n, &c->tensors, e);
    if (r < 0)
        return r;
    r = survey_rows(c, e);
    if (r < 0)
        return r;
    c->inputs = calloc(info->n_inputs ? info->n_inputs : 1, sizeof *c->inputs);
    c->bound = calloc(n, sizeof *c->bound);
    return c->inputs && c->bound ? 0 : error_no_memory(e, "inputs", n * sizeof *c->inputs);
}

static int ask(struct context *c, uint16_t type, const void *message, struct error *e)
{
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    struct request r = {.type = type, .reply = &c->info, .payload = payload_take, .owner = &list};
    int s = connection_call(c->connection, &r, message, e);
    if (s == 0) {
        s = take_info(c, (struct bytes){list.data, list.size}, e);
        if (s < 0 && s != STATUS_MALLOC_FAIL) {
            error_prefix(e, "its description of the model");
            connection_lose(c->connection, e);
            *e = c->connection->why;
            s = e->code;
        }
    }
    payload_done(&list);
    return s;
}

int context_open(struct connection *connection, uint16_t type, const void *message, uint32_t flags,
                 rknn_context *ret, struct error *e)
{
    cleanup(context_free_p) struct context *c = calloc(1, sizeof *c);
    if (!c) {
        server_disconnect(connection);
        return error_no_memory(e, "a context", sizeof *c);
    }
    pthread_cond_init(&c->back, NULL);
    c->connection = connection;
    c->flags = flags;
    for (size_t i = 0; i < LIMIT_RUNS; i++)
        c->runs[i].context = c;
    pthread_mutex_lock(&connection->lock);
    int r = ask(c, type, message, e);
    pthread_mutex_unlock(&connection->lock);
    if (r == 0)
        r = handle_add(&c->handle, e);
    if (r == 0)
        *ret = steal_ptr(c)->handle.number;
    return r;
}

// So that its resources at the server are free when rknn_destroy() returns.
static void close_at_server(struct context *c)
{
    rknnd_ContextClose m = {.context = c->info.context};
    struct request r = {.type = MESSAGE_CONTEXT_CLOSE};
    struct error e;
    struct connection *to = c->connection;
    int s = connection_send(to, &r, &m, NULL, 0, &e);
    if (s == 0)
        s = connection_wait(to, &r, clock_ms() + to->peer.limits.peer_timeout_ms, &e);
    if (s == STATUS_TIMEOUT)
        connection_lose(to, &e); // the request must not outlive this function
}

void context_finish(struct context *c)
{
    if (!keepalive_is_inherited(c->connection)) {
        callbacks_stop(c->callbacks);
        pthread_mutex_lock(&c->connection->lock);
        close_at_server(c);
        pthread_mutex_unlock(&c->connection->lock);
    }
    context_free(c);
}

// The last reference may go in a callback that the context's own thread runs: it goes on from
// there.
static void release(struct context *c)
{
    if (handle_put(&c->handle) && !callbacks_leave_to_reader(c->callbacks))
        context_finish(c);
}

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
    release(c);
}

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

int context_end(rknn_context number, struct error *e)
{
    struct context *c = (struct context *)handle_remove(number);
    if (!c)
        return error_set(e, STATUS_CTX_INVALID,
                         "0x%llx is not a context: never opened, or destroyed already",
                         (unsigned long long)number);
    release(c);
    return 0;
}

struct bound *context_bound(const struct context *c, bool output, uint32_t i)
{
    struct bound *b = &c->bound[output ? c->info.n_inputs + i : i];
    return b->mem ? b : NULL;
}

struct bound *context_bound_copy(const struct context *c, bool output, uint32_t i)
{
    struct bound *b = context_bound(c, output, i);
    return b && !b->home->shared ? b : NULL;
}

struct session_key {
    uint64_t id;
    const uint8_t *secret;
};

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
