// What a context is made of, and how it goes.
#include "client/api/context_open.h"

#include "client/api/callbacks.h"
#include "client/api/mem.h"
#include "client/link/keepalive.h"
#include "client/link/payload.h"
#include "client/link/servers.h"
#include "client/matmul/matmul_state.h"
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

static uint64_t count_elements(const struct context *c, uint32_t row)
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
        if (count_elements(c, row) > count_elements(c, c->largest_row))
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

// The last reference may go in a callback that the context's own thread runs: it goes on from
// there.
static void end_last(struct handle *h)
{
    struct context *c = (struct context *)h;
    if (!callbacks_leave_to_reader(c->callbacks, context_finish))
        context_finish(c);
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
