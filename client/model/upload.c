// Uploads: MODEL_OFFER asks what the server has of a model, by its hash; MODEL_CHUNK sends the
// rest.
//
//     ring:   first ............ next          at: the offset of the next part
//             answers wanted ── sent ─►        next - first <= window
//
// Several parts are on their way, so that the time of a round trip is not lost per part. Runs in
// the thread of the call, with the connection's lock held.
#include "client/model/upload.h"

#include "client/last_error.h"
#include "client/limits.h"
#include "client/model/stored.h"
#include "client/record/record.h"
#include "rknnd.h"

static _Thread_local struct {
    rknnd_progress *report;
    void *user;
} progress;

RKNN_EXPORT void rknnd_set_progress(rknnd_progress *report_progress, void *user)
{
    progress.report = report_progress;
    progress.user = user;
}

// A part on its way.
struct part {
    struct request request;
    rknnd_ModelChunkReply reply;
    uint64_t end;
};

// The parts between `first` (the oldest without an answer) and `next` are on their way; a part's
// place in the ring is its number.
struct upload {
    struct connection *c;
    const struct model *model;
    struct part ring[LIMIT_CHUNKS_IN_FLIGHT];
    unsigned first, next, window;
    uint64_t at; // where the next part starts
    bool complete;
    uint8_t *buffer; // for one part of a file
    size_t part_size;
};

void upload_tell(uint64_t done, uint64_t total)
{
    if (progress.report)
        progress.report(progress.user, done, total);
}

// One part; its request stays in the ring until it is answered. The buffer is free when
// connection_send() returns.
static int send_part(struct upload *u, struct error *e)
{
    uint64_t left = u->model->size - u->at;
    size_t n = left < u->part_size ? (size_t)left : u->part_size;
    const uint8_t *bytes = model_read(u->model, u->at, n, u->buffer, e);
    if (!bytes)
        return e->code;
    struct part *p = &u->ring[u->next % LIMIT_CHUNKS_IN_FLIGHT];
    *p = (struct part){.request = {.type = MESSAGE_MODEL_CHUNK, .reply = &p->reply},
                       .end = u->at + n};
    rknnd_ModelChunk m = {.offset = u->at};
    memcpy(m.sha256, u->model->sha256, sizeof m.sha256);
    struct iovec payload = {(void *)bytes, n};
    int r = connection_send(u->c, &p->request, &m, &payload, 1, e);
    if (r < 0)
        return r;
    u->next++;
    u->at += n;
    return 0;
}

// Waits for the oldest part. The server may already have more than this part: others upload the
// same model, too.
static int take_answer(struct upload *u, struct error *e)
{
    struct part *p = &u->ring[u->first++ % LIMIT_CHUNKS_IN_FLIGHT];
    int r = connection_wait(u->c, &p->request, CLOCK_FOREVER, e);
    if (r < 0)
        return r;
    if (p->reply.received < p->end || p->reply.received > u->model->size)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "server %s holds %llu bytes of the model after the part that ends at %llu",
                         u->c->uri, (unsigned long long)p->reply.received,
                         (unsigned long long)p->end);
    u->complete = p->reply.complete;
    upload_tell(p->end, u->model->size);
    return 0;
}

// The requests are on the stack of send_rest(): whatever happened, all answers are waited for.
static void upload_drain(struct upload *u)
{
    struct error ignored;
    while (u->first != u->next)
        connection_wait(u->c, &u->ring[u->first++ % LIMIT_CHUNKS_IN_FLIGHT].request, CLOCK_FOREVER,
                        &ignored);
}

// Sends while the window has room, else waits for an answer.
static int send_all(struct upload *u, struct error *e)
{
    int r = 0;
    upload_tell(u->at, u->model->size);
    while (r == 0 && (u->at < u->model->size || u->first != u->next)) {
        bool room = u->next - u->first < u->window;
        r = u->at < u->model->size && room ? send_part(u, e) : take_answer(u, e);
    }
    upload_drain(u);
    if (r == 0 && !u->complete)
        r = error_set(e, STATUS_DEVICE_UNAVAILABLE,
                      "server %s has all of the model and says that it is not complete", u->c->uri);
    return r;
}

// The server says from which byte on it wants the model (0: it has nothing), or that it has all of
// it.
static int upload_offer_model(struct connection *c, const struct model *m,
                              rknnd_ModelOfferReply *ret, struct error *e)
{
    rknnd_ModelOffer message = {.size = m->size};
    struct request r = {.type = MESSAGE_MODEL_OFFER, .reply = ret};
    memcpy(message.sha256, m->sha256, sizeof message.sha256);
    message_set_text(message.name, m->name);
    int s = connection_call(c, &r, &message, e);
    if (s == 0 && !ret->held && ret->offset >= m->size)
        s = error_set(e, STATUS_DEVICE_UNAVAILABLE,
                      "server %s wants the model from byte %llu on, it has %llu", c->uri,
                      (unsigned long long)ret->offset, (unsigned long long)m->size);
    return s;
}

// Sends what the server lacks of the model.
static int send_rest(struct connection *c, const struct model *m, uint64_t at, struct error *e)
{
    const rknnd_Limits *l = &c->peer.limits;
    struct upload u = {
        .c = c,
        .model = m,
        .window = l->requests < LIMIT_CHUNKS_IN_FLIGHT ? l->requests : LIMIT_CHUNKS_IN_FLIGHT,
        .at = at,
        .part_size = l->chunk_size < l->payload_size ? l->chunk_size : (size_t)l->payload_size,
    };
    u.part_size = u.part_size < LIMIT_CHUNK_BYTES ? u.part_size : LIMIT_CHUNK_BYTES;
    if (!m->data && !(u.buffer = malloc(u.part_size)))
        return error_no_memory(e, "a part of the model", u.part_size);
    int r = send_all(&u, e);
    free(u.buffer);
    return r;
}

int upload_model(struct connection *c, struct model *m, uint64_t *held, struct error *e)
{
    const rknnd_Limits *l = &c->peer.limits;
    rknnd_ModelOfferReply reply;
    if (*m->stored)
        return stored_find(c, m, e);
    if (m->size > l->model_size)
        return error_set(e, STATUS_MODEL_INVALID,
                         "model %s has %llu bytes, server %s takes %llu (its option "
                         "--max-model-size)",
                         m->name, (unsigned long long)m->size, c->uri,
                         (unsigned long long)l->model_size);
    int r = record_model(c->record, m, e);
    // A program that was stopped may find that another has gone on with its upload.
    for (unsigned i = 0; r == 0 && i < LIMIT_UPLOAD_ATTEMPTS; i++) {
        r = upload_offer_model(c, m, &reply, e);
        if (r < 0 || reply.held)
            return r;
        *held = reply.offset;
        r = send_rest(c, m, reply.offset, e);
        if (r == 0)
            return 0;
        if (r == STATUS_TIMEOUT && !c->lost && i + 1 < LIMIT_UPLOAD_ATTEMPTS)
            r = 0;
    }
    return r;
}
