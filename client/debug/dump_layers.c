// rknnd_dump_layers, rknnd_replace_layers: a run whose server sends every tensor that a node
// computes, in parts, and waits before it goes on.
//
//     DUMP ─►  ◄─ part: bytes [offset, offset + size) of a tensor (FRAME_MORE)
//              the tensor is complete: the program's callback
//     DUMP_NEXT ─►   also carries bytes back, when the server wants them (replace)
//              ◄─ the answer without FRAME_MORE: the end
//
// Tensors are in the type they have in the NPU; rknnd_tensor_to_float() converts them. Runs in the
// thread of the call; the context is lent during callbacks.
#include "base/cleanup.h"
#include "base/text/text.h"
#include "client/api/callbacks.h"
#include "client/api/mem_copy.h"
#include "client/api/run.h"
#include "client/last_error.h"
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
    bool replace;            // and what the program makes of it goes back
};

// ---- receiving ---------------------------------------------------------------------------------

// A part at offset 0 begins a tensor: its attributes are checked, and the buffer grows if need be.
static int begin_tensor(struct dump *d, struct error *e)
{
    rknnd_DumpReply *m = &d->reply;
    if (d->have < d->attr.size)
        return error_set(e, STATUS_FAIL, "tensor %s ends after %llu of %u bytes", d->attr.name,
                         (unsigned long long)d->have, d->attr.size);
    int r = tensor_attr_from_message(&m->tensor, "a dumped tensor", &d->attr, e);
    if (r < 0)
        return r;
    text_make_printable(d->attr.name);
    text_make_printable(m->node);
    text_make_printable(m->op);
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

// The server asks for a part of the replaced tensor back; it must be complete, and the part inside
// of it.
static int check_wanted(const struct dump *d, uint64_t size, struct error *e)
{
    const rknnd_DumpReply *m = &d->reply;
    if (d->replace && size == 0 && d->have == d->attr.size && m->offset <= d->attr.size &&
        m->size <= d->attr.size - m->offset)
        return 0;
    return error_set(e, STATUS_FAIL, "%llu bytes at %llu of tensor %s are wanted, of %u",
                     (unsigned long long)m->size, (unsigned long long)m->offset, d->attr.name,
                     d->attr.size);
}

// Parts of a tensor come in order and without gaps.
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
    if (d->reply.wanted)
        return check_wanted(d, size, e);
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

// Calls the program. It may take its time: the lock is given up, so heartbeats go on. The server
// waits for DUMP_NEXT meanwhile.
static int dump_layers_show(struct dump *d, struct error *e)
{
    rknnd_tensor tensor = to_program(d);
    context_lend(d->context);
    int r = d->callback(d->user, &tensor);
    context_take_back(d->context);
    return r < 0 ? error_set(e, status_from_peer(r), "the program ended the dump at tensor %s",
                             d->attr.name)
                 : 0;
}

// Ends the request on the server. The request is on the stack, so parts that are on their way are
// dropped until the answer comes.
static void dump_layers_cancel(struct dump *d)
{
    struct connection *c = d->context->connection;
    struct error ignored;
    connection_tell(c, MESSAGE_CANCEL, &(rknnd_Cancel){.request = d->request.id}, NULL, 0);
    while (!d->request.done) {
        d->request.part = false;
        connection_wait_part(c, &d->request, CLOCK_FOREVER, &ignored);
    }
}

static void go_on(struct dump *d)
{
    rknnd_DumpNext m = {.request = d->request.id};
    struct iovec back = {d->data + d->reply.offset, (size_t)d->reply.size};
    connection_tell(d->context->connection, MESSAGE_DUMP_NEXT, &m, &back, d->reply.wanted ? 1 : 0);
}

// Handles parts until the run ends. A part may also be a call of a custom operator.
static int dump_layers_follow(struct dump *d, struct error *e)
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
        if (d->whole && !d->reply.wanted)
            r = dump_layers_show(d, e);
        if (r < 0) {
            dump_layers_cancel(d);
            return r;
        }
        d->request.part = d->whole = false;
        go_on(d);
    }
}

static int dump_layers_dump(struct dump *d, const char *only, struct error *e)
{
    struct context *c = d->context;
    struct iovec segments[FRAME_MAX_SEGMENTS];
    rknnd_Dump m = {.has_run = true, .run = {.context = c->info.context}, .replace = d->replace};
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
        r = dump_layers_follow(d, e);
    mem_copy_ran(c, r == 0);
    return r;
}

static int dump_layers(struct dump *d, rknn_context context, const char *only, struct error *e)
{
    cleanup(context_leave_p) struct context *c = NULL;
    int r = d->callback ? context_enter(context, &c, e)
                        : error_set(e, STATUS_PARAM_INVALID, "callback is NULL");
    d->context = c;
    if (r == 0)
        r = dump_layers_dump(d, only, e);
    free(d->data);
    return r;
}

RKNN_EXPORT int rknnd_dump_layers(rknn_context context, const char *only,
                                  rknnd_tensor_callback *callback, void *user)
{
    struct error e;
    struct dump d = {.callback = callback, .user = user};
    int r = dump_layers(&d, context, only, &e);
    return last_error_keep("rknnd_dump_layers", r, &e);
}

RKNN_EXPORT int rknnd_replace_layers(rknn_context context, const char *only,
                                     rknnd_tensor_callback *callback, void *user)
{
    struct error e;
    struct dump d = {.callback = callback, .user = user, .replace = true};
    int r = dump_layers(&d, context, only, &e);
    return last_error_keep("rknnd_replace_layers", r, &e);
}

// ---- values ------------------------------------------------------------------------------------

// A program's tensor, as the converters take it.
static int attr_of(const rknnd_tensor *t, const float *values, struct tensor_attr *ret,
                   struct error *e)
{
    if (!t || !values || t->n_dims > RKNN_MAX_DIMS)
        return error_set(e, STATUS_PARAM_INVALID, "tensor or values is NULL, or it is no tensor");
    *ret = (struct tensor_attr){.n_dims = t->n_dims,
                                .n_elems = t->n_elems,
                                .size = t->size,
                                .zp = t->zp,
                                .scale = t->scale,
                                .type = (enum tensor_type)t->type,
                                .layout = TENSOR_UNDEFINED,
                                .qnt = (enum tensor_qnt)t->qnt_type};
    memcpy(ret->dims, t->dims, t->n_dims * sizeof *ret->dims);
    return 0;
}

RKNN_EXPORT int rknnd_tensor_to_float(const rknnd_tensor *t, float *values)
{
    struct error e;
    struct tensor_attr a;
    int r = attr_of(t, values, &a, &e);
    if (r == 0)
        r = convert_to_float(&a, t->data, t->size, values, t->n_elems, &e);
    return last_error_keep("rknnd_tensor_to_float", r, &e);
}

// Writes into t->data, which is the library's buffer during a callback.
RKNN_EXPORT int rknnd_tensor_from_float(const rknnd_tensor *t, const float *values)
{
    struct error e;
    struct tensor_io io = {0};
    const struct convert_form from = {.type = TENSOR_FLOAT32, .layout = TENSOR_UNDEFINED};
    int r = attr_of(t, values, &io.logical, &e);
    if (r == 0)
        r = convert_input(&io, &from, values, t->n_elems * sizeof *values, (void *)t->data, t->size,
                          &e);
    return last_error_keep("rknnd_tensor_from_float", r, &e);
}
