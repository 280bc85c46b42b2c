// rknnd_dump_layers: what each node computes.
#include "base/cleanup.h"
#include "client/callbacks.h"
#include "client/last_error.h"
#include "client/mem_copy.h"
#include "client/run.h"
#include "protocol/tensor_message.h"
#include "rknnd.h"

struct dump {
    struct request request;
    rknnd_DumpReply reply;
    struct context *context;
    rknnd_tensor_callback *callback;
    void *user;
    // The tensor that is coming:
    struct tensor_attr attr;
    uint8_t *data;
    uint64_t capacity, have; // bytes
    bool whole;              // it has come
};

// ---- receiving ---------------------------------------------------------------------------------

static int begin_tensor(struct dump *d, struct error *e)
{
    rknnd_DumpReply *m = &d->reply;
    if (d->have < d->attr.size)
        return error_set(e, STATUS_FAIL, "tensor %s ends after %llu of %u bytes", d->attr.name,
                         (unsigned long long)d->have, d->attr.size);
    int r = tensor_attr_from_message(&m->tensor, "a dumped tensor", &d->attr, e);
    if (r < 0)
        return r;
    message_make_printable(d->attr.name);
    message_make_printable(m->node);
    message_make_printable(m->op);
    d->have = 0;
    if (d->attr.size <= d->capacity)
        return 0;
    free(d->data);
    d->capacity = 0;
    d->data = malloc(d->attr.size);
    if (!d->data)
        return error_no_memory(e, "a tensor", d->attr.size);
    d->capacity = d->attr.size;
    return 0;
}

static int check_part(const struct dump *d, uint64_t size, struct error *e)
{
    const rknnd_DumpReply *m = &d->reply;
    if (m->offset == d->have && m->size == size && size <= d->attr.size - d->have)
        return 0;
    return error_set(e, STATUS_FAIL, "%llu bytes at %llu of tensor %s, of which %llu came of %u",
                     (unsigned long long)size, (unsigned long long)m->offset, d->attr.name,
                     (unsigned long long)d->have, d->attr.size);
}

// request.payload
static int take_part(struct request *request, uint64_t size, struct iovec *segments,
                     struct error *e)
{
    struct dump *d = request->owner;
    bool more = d->context->connection->reader.header.flags & FRAME_MORE;
    int r = 0;
    if (!more)
        return size ? error_set(e, STATUS_FAIL, "a payload behind the last tensor") : 0;
    if (d->reply.has_call)
        return callbacks_take_inputs(d->context, &d->reply.call, size, segments, e);
    if (d->reply.offset == 0)
        r = begin_tensor(d, e);
    if (r == 0)
        r = check_part(d, size, e);
    if (r < 0)
        return r;
    segments[0] = (struct iovec){d->data + d->have, (size_t)size};
    d->have += size;
    d->whole = d->have == d->attr.size;
    return 1;
}

// ---- handing over ------------------------------------------------------------------------------

static rknnd_tensor to_program(const struct dump *d)
{
    const struct tensor_attr *a = &d->attr;
    rknnd_tensor t = {.struct_size = sizeof t,
                      .index = d->reply.index,
                      .name = a->name,
                      .node = d->reply.node,
                      .op = d->reply.op,
                      .n_dims = a->n_dims,
                      .type = (rknn_tensor_type)a->type,
                      .qnt_type = (rknn_tensor_qnt_type)a->qnt,
                      .zp = a->zp,
                      .scale = a->scale,
                      .n_elems = a->n_elems,
                      .size = a->size,
                      .data = d->data};
    memcpy(t.dims, a->dims, a->n_dims * sizeof *t.dims);
    return t;
}

// The program may take its time: meanwhile the connection is free for heartbeats. Nothing comes for
// this request before it is told to go on.
static int show(struct dump *d, struct error *e)
{
    rknnd_tensor tensor = to_program(d);
    context_lend(d->context);
    int r = d->callback(d->user, &tensor);
    context_take_back(d->context);
    return r < 0 ? error_set(e, status_from_peer(r), "the program ended the dump at tensor %s",
                             d->attr.name)
                 : 0;
}

// Ends the request on the server; waits until no answer can come any more.
static void cancel(struct dump *d)
{
    struct connection *c = d->context->connection;
    struct error ignored;
    connection_tell(c, MESSAGE_CANCEL, &(rknnd_Cancel){.request = d->request.id}, NULL, 0);
    while (!d->request.done) {
        d->request.part = false;
        connection_wait_part(c, &d->request, CLOCK_FOREVER, &ignored);
    }
}

static int follow(struct dump *d, struct error *e)
{
    struct connection *c = d->context->connection;
    for (;;) {
        int r = connection_wait_part(c, &d->request, CLOCK_FOREVER, e);
        if (d->request.done)
            return r;
        if (d->reply.has_call) {
            callbacks_compute(d->context, &d->request, &d->reply.call);
            continue;
        }
        if (d->whole)
            r = show(d, e);
        if (r < 0) {
            cancel(d);
            return r;
        }
        d->request.part = d->whole = false;
        connection_tell(c, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){.request = d->request.id}, NULL, 0);
    }
}

static int dump(struct dump *d, const char *only, struct error *e)
{
    struct context *c = d->context;
    struct iovec segments[FRAME_MAX_SEGMENTS];
    rknnd_Dump m = {.has_run = true, .run = {.context = c->info.context}};
    if (only && strlen(only) >= sizeof m.only)
        return error_set(e, STATUS_PARAM_INVALID, "a name of %zu bytes, %zu are possible",
                         strlen(only), sizeof m.only - 1);
    message_set_text(m.only, only ? only : "");
    int n = run_gather(c, &m.run, segments, e);
    if (n < 0)
        return n;
    callbacks_announce(c, &m.run);
    d->request = (struct request){.type = MESSAGE_DUMP,
                                  .reply = &d->reply,
                                  .payload = take_part,
                                  .in_parts = true,
                                  .owner = d};
    int r = connection_send(c->connection, &d->request, &m, segments, n, e);
    if (r == 0)
        r = follow(d, e);
    mem_copy_ran(c, r == 0);
    return r;
}

RKNN_EXPORT int rknnd_dump_layers(rknn_context context, const char *only,
                                  rknnd_tensor_callback *callback, void *user)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    struct dump d = {.callback = callback, .user = user};
    int r = callback ? context_enter(context, &c, &e)
                     : error_set(&e, STATUS_PARAM_INVALID, "callback is NULL");
    d.context = c;
    if (r == 0)
        r = dump(&d, only, &e);
    free(d.data);
    return last_error_keep("rknnd_dump_layers", r, &e);
}

RKNN_EXPORT int rknnd_tensor_to_float(const rknnd_tensor *t, float *values)
{
    struct error e;
    int r = 0;
    if (!t || !values || t->n_dims > RKNN_MAX_DIMS)
        r = error_set(&e, STATUS_PARAM_INVALID, "tensor or values is NULL, or it is no tensor");
    if (r == 0) {
        struct tensor_attr a = {.n_dims = t->n_dims,
                                .n_elems = t->n_elems,
                                .size = t->size,
                                .zp = t->zp,
                                .scale = t->scale,
                                .type = (enum tensor_type)t->type,
                                .layout = TENSOR_UNDEFINED,
                                .qnt = (enum tensor_qnt)t->qnt_type};
        memcpy(a.dims, t->dims, t->n_dims * sizeof *a.dims);
        r = convert_to_float(&a, t->data, t->size, values, t->n_elems, &e);
    }
    return last_error_keep("rknnd_tensor_to_float", r, &e);
}
