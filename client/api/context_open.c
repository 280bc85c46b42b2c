// Opening and closing a context: asks the server, checks its description of the model, and
// allocates what runs need. Closing happens in whatever thread drops the last reference.
//
//     context_open()  CONTEXT_OPEN or _DUP ─► take_info() ─► handle_add()
//     end_last()      [callbacks' thread] ─► callbacks_stop() ─► CONTEXT_CLOSE ─► context_free()
#include "client/api/context_open.h"

#include "base/text/text.h"
#include "client/api/callbacks.h"
#include "client/api/mem.h"
#include "client/link/keepalive.h"
#include "client/link/payload.h"
#include "client/link/servers.h"
#include "client/matmul/matmul_state.h"
#include "protocol/tensor_message.h"

// Also frees one that was opened in part. No lock is held: mem_put() and server_disconnect() take
// some.
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

static uint64_t count_elements(const struct context *c, uint32_t shape_set)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < c->info.n_inputs; i++)
        n += context_input_in(c, shape_set, i)->logical.n_elems;
    return n;
}

// Checks the size of every shape set's outputs and finds the largest set. That is the one a context
// begins with and shows first, so that programs allocate enough memory (SDK guide 5.4.4.2).
static int survey_shape_sets(struct context *c, struct error *e)
{
    for (uint32_t shape_set = 0; shape_set < c->info.n_shape_sets; shape_set++) {
        uint64_t size = context_output_size(c, shape_set);
        if (size > c->connection->peer.limits.payload_size)
            return error_set(e, STATUS_FAIL, "outputs of %llu bytes are more than it sends at once",
                             (unsigned long long)size);
        c->output_room = size > c->output_room ? size : c->output_room;
        if (count_elements(c, shape_set) > count_elements(c, c->largest_shape_set))
            c->largest_shape_set = shape_set;
    }
    c->shape_set = c->largest_shape_set;
    return 0;
}

// Takes the server's description of the model: untrusted, so counts are checked before they are
// multiplied or allocated by. n_shape_sets 0 stands for fixed shapes.
static int take_info(struct context *c, struct bytes list, struct error *e)
{
    rknnd_ContextInfo *info = &c->info;
    uint32_t n, per_set;
    text_make_printable(info->estimate_chip);
    info->n_shape_sets = info->n_shape_sets ? info->n_shape_sets : 1;
    if (info->n_outputs == 0 || __builtin_add_overflow(info->n_inputs, info->n_outputs, &per_set) ||
        __builtin_mul_overflow(per_set, info->n_shape_sets, &n) ||
        info->n_shape_sets > LIMIT_SHAPE_SETS)
        return error_set(e, STATUS_FAIL, "%u inputs and %u outputs in %u shape sets",
                         info->n_inputs, info->n_outputs, info->n_shape_sets);
    int r = tensor_list_decode(list, n, &c->tensors, e);
    if (r < 0)
        return r;
    r = survey_shape_sets(c, e);
    if (r < 0)
        return r;
    c->inputs = calloc(info->n_inputs ? info->n_inputs : 1, sizeof *c->inputs);
    c->bound = calloc(n, sizeof *c->bound);
    return c->inputs && c->bound ? 0 : error_no_memory(e, "inputs", n * sizeof *c->inputs);
}

// A description that makes no sense loses the connection: the server cannot be trusted further.
static int ask_server(struct context *c, uint16_t type, const void *message, struct error *e)
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

// Waits for the server, so that the context's resources there are free when rknn_destroy() returns;
// but no longer than a silent server is taken for dead.
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

// The thread of the callbacks is stopped before the lock is taken: it needs the lock to end.
static void context_finish(struct context *c)
{
    if (!keepalive_is_inherited(c->connection)) {
        callbacks_stop(c->callbacks);
        pthread_mutex_lock(&c->connection->lock);
        close_at_server(c);
        pthread_mutex_unlock(&c->connection->lock);
    }
    context_free(c);
}

// If the last reference goes inside a callback on the context's own thread, that thread closes the
// context when the callback has returned: it cannot wait for itself.
static void end_last(struct handle *h)
{
    struct context *c = (struct context *)h;
    if (!callbacks_leave_to_reader(c->callbacks, context_finish))
        context_finish(c);
}

// Takes the connection over, also on failure.
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
    c->handle.end = end_last;
    for (size_t i = 0; i < LIMIT_RUNS; i++)
        c->runs[i].context = c;
    pthread_mutex_lock(&connection->lock);
    int r = ask_server(c, type, message, e);
    pthread_mutex_unlock(&connection->lock);
    if (r == 0)
        r = handle_add(&c->handle, e);
    if (r == 0)
        *ret = steal_ptr(c)->handle.number;
    return r;
}
