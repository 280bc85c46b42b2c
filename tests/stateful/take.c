// Answers: each belongs to a question, and a result that is known is right.
#include <stdlib.h>
#include <string.h>

#include "tests/stateful/world.h"

struct request *request_find(struct client *c, uint32_t id)
{
    for (struct request *r = c->requests; r < c->requests + N_REQUESTS; r++)
        if (r->type && r->id == id)
            return r;
    return NULL;
}

unsigned client_unanswered(const struct client *c)
{
    unsigned n = 0;
    for (unsigned i = 0; i < N_REQUESTS; i++)
        n += c->requests[i].type != 0;
    return n;
}

static void learn_input(struct file *f, struct bytes payload)
{
    rknnd_TensorIo io;
    struct error e;
    if (f->input)
        return;
    if (message_delimited_take(rknnd_TensorIo_fields, &payload, &io, &e) < 0)
        wrong("tensors that cannot be read: %s", e.text);
    f->input_size = io.logical.size;
    f->input = malloc(f->input_size);
    for (size_t i = 0; i < f->input_size; i++)
        f->input[i] = (uint8_t)(i * 7 % 251 & 0x3f);
}

static void take_result(const struct client *c, const struct request *r, struct bytes payload)
{
    struct file *f = r->context.file;
    if (!r->plain || is_bound(c->session, r->context.handle))
        return;
    if (!f->expected) {
        f->expected = malloc(payload.size);
        f->expected_size = payload.size;
        memcpy(f->expected, payload.data, payload.size);
    }
    if (payload.size != f->expected_size || memcmp(payload.data, f->expected, payload.size) != 0)
        wrong("a run with a wrong result of %zu bytes", payload.size);
}

static void take_part(struct request *r, const union message_any *m)
{
    bool call = r->type == MESSAGE_DUMP ? m->DUMP_reply.has_call : m->INFER_reply.has_call;
    if (!r->guessed && (r->has_part || r->has_call))
        wrong("two parts at a time of request %u", r->id);
    if (call) {
        r->has_call = true;
        r->call = r->type == MESSAGE_DUMP ? m->DUMP_reply.call.number : m->INFER_reply.call.number;
    } else {
        r->has_part = true;
        r->part = m->DUMP_reply.wanted ? m->DUMP_reply.size : 0;
    }
}

static void take_memory(struct client *c, uint64_t memory)
{
    if (c->n_memories < N_MEMORIES)
        c->memories[c->n_memories++] = memory;
}

static void take_answer(struct client *c, const struct request *r, const union message_any *m,
                        struct bytes payload)
{
    switch (r->type) {
    case MESSAGE_HELLO:
        c->session = m->HELLO_reply.session;
        memcpy(c->secret, m->HELLO_reply.session_secret.bytes, sizeof c->secret);
        break;
    case MESSAGE_CONTEXT_OPEN:
    case MESSAGE_CONTEXT_DUP:
        if (r->context.file)
            learn_input(r->context.file, payload);
        if (r->context.file && c->n_contexts < N_CONTEXTS)
            c->contexts[c->n_contexts++] =
                (struct context){m->CONTEXT_OPEN_reply.context, r->context.file};
        break;
    case MESSAGE_MEMORY_CREATE:
        take_memory(c, m->MEMORY_CREATE_reply.memory);
        break;
    case MESSAGE_MEMORY_IMPORT:
        take_memory(c, m->MEMORY_IMPORT_reply.memory);
        break;
    case MESSAGE_INFER:
        take_result(c, r, payload);
        break;
    case MESSAGE_MODEL_FIND:
    case MESSAGE_MODEL_LIST:
    case MESSAGE_MODEL_MANIFEST:
    case MESSAGE_MODEL_PULL:
        client_take_stored(c, r, m, payload);
        break;
    default:
        break;
    }
}

// The server's own: a Ping to be answered, or a goodbye.
static void take_request(struct client *c, const struct frame_header *h, struct bytes message)
{
    struct error e;
    union message_any m;
    if (message_decode(message_fields(h), message, &m, &e) < 0)
        wrong("the server's own message of type %u: %s", h->type, e.text);
    if (h->type == MESSAGE_GOODBYE && !c->may_end)
        wrong("sent away: %s", m.GOODBYE_request.reason);
    if (h->type == MESSAGE_PING) {
        c->held_back = 0;
        frame_queue_push(&c->out, message_frame(MESSAGE_PING, FRAME_REPLY, h->id, rknnd_Ping_fields,
                                                &m, NULL, 0, NULL, NULL));
    } else if (h->type != MESSAGE_GOODBYE) {
        wrong("the server asks, with type %u", h->type);
    }
}

void client_take(struct client *c, const struct frame_header *h, struct bytes message,
                 struct bytes payload)
{
    static union message_any m;
    struct error e;
    if (!(h->flags & FRAME_REPLY)) {
        take_request(c, h, message);
        return;
    }
    struct request *r = request_find(c, h->id);
    if (!r || r->type != h->type) {
        if (!c->may_end)
            wrong("an answer to nothing: type %u, id %u", h->type, h->id);
        return;
    }
    if (message_decode(message_fields(h), message, &m, &e) < 0)
        wrong("an answer of type %u that cannot be read: %s", h->type, e.text);
    if (h->flags & FRAME_MORE) {
        take_part(r, &m);
        return;
    }
    struct request done = *r;
    r->type = 0;
    c->old_id = done.id;
    if (h->flags & FRAME_ERROR) {
        world.errors[h->type]++;
        if (!m.error.text[0])
            wrong("an error without words, of type %u", h->type);
        return;
    }
    world.answers[h->type]++;
    take_answer(c, &done, &m, payload);
}
