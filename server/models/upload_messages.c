// The messages of an upload: offers and chunks.
#include "base/cleanup.h"
#include "server/clients/session.h"
#include "server/config/options.h"
#include "server/models/model_users.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/net/connection.h"

static int check_offer(const struct options *o, const rknnd_ModelOffer *m, struct error *e)
{
    if (m->size == 0)
        return error_set(e, STATUS_MODEL_INVALID, "a model of no bytes was offered");
    if (m->size > o->max_model_size || m->size > SIZE_MAX / 2)
        return error_set(e, STATUS_MODEL_INVALID,
                         "a model of %llu bytes was offered, the server's limit is %llu "
                         "(max-model-size)",
                         (unsigned long long)m->size, (unsigned long long)o->max_model_size);
    return 0;
}

static int other_size(uint64_t offered, uint64_t known, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "a model of %llu bytes was offered under the hash of one of %llu bytes",
                     (unsigned long long)offered, (unsigned long long)known);
}

static void reply_offer(struct connection *c, const struct frame_header *h, bool held,
                        uint64_t offset)
{
    rknnd_ModelOfferReply m = {.held = held, .offset = offset};
    connection_reply(c, h, rknnd_ModelOfferReply_fields, &m);
}

// Offer of a file that is being uploaded: an orphan, or one's own, is continued; else the offer
// waits for the outcome.
static int join_upload(struct upload *u, struct connection *c, const struct frame_header *h,
                       struct error *e)
{
    if ((u->owner && u->owner != c) || u->received == u->size) {
        struct upload_request *r = upload_wait(u, c, h, e);
        if (!r)
            return e->code;
        list_append(&u->waiting, &r->link);
        return 0;
    }
    upload_give_to(u, c);
    reply_offer(c, h, false, u->received);
    return 0;
}

// A model that the client's user has brought before. That others have brought it, nobody is told.
static struct model *find_known(struct uploads *all, const struct connection *c,
                                const uint8_t sha256[MODEL_SHA256_SIZE])
{
    struct model *m = store_find(all->store, sha256);
    return m && model_is_known(m, c->session->user) ? m : NULL;
}

// Three answers: the server has the file; it wants bytes from an offset on; or, later, the outcome
// of another's upload.
int upload_offer(struct uploads *all, struct connection *c, const struct frame_header *h,
                 const rknnd_ModelOffer *m, struct error *e)
{
    struct model *held = find_known(all, c, m->sha256);
    struct upload *u = upload_find(all, c, m->sha256, m->size);
    int r = check_offer(all->options, m, e);
    if (r < 0)
        return r;
    if (held && held->file.size != m->size)
        return other_size(m->size, held->file.size, e);
    if (held) {
        r = upload_keep_model(c, held, e);
        if (r == 0)
            reply_offer(c, h, true, 0);
        return r;
    }
    if (u)
        return join_upload(u, c, h, e);
    r = upload_new(all, c, m, &u, e);
    if (r == 0)
        reply_offer(c, h, false, 0);
    return r;
}

// The chunk is in the map. The answer to the last one waits for the hash.
static void on_chunk(struct connection *c, void *owner)
{
    struct upload *u = owner;
    const struct frame_header *h = &c->channel.reader.header;
    struct error e;
    u->received += u->incoming;
    u->uploads->taken_bytes += u->incoming;
    u->incoming = 0;
    u->progress_ms = uv_now(u->uploads->loop);
    if (u->received == u->size) {
        u->last = upload_wait(u, c, h, &e);
        if (!u->last)
            connection_reply_error(c, h, &e);
    } else {
        rknnd_ModelChunkReply m = {.received = u->received};
        connection_reply(c, h, rknnd_ModelChunkReply_fields, &m);
    }
    upload_hash_on(u);
}

static int check_chunk(const struct upload *u, const struct frame_header *h,
                       const rknnd_ModelChunk *m, struct error *e)
{
    if (m->offset != u->received)
        return error_set(e, STATUS_FAIL, "a part of %s at %llu came, the next one is at %llu",
                         u->name, (unsigned long long)m->offset, (unsigned long long)u->received);
    if (h->payload_size == 0 || h->payload_size > UPLOAD_CHUNK_SIZE ||
        h->payload_size > u->size - u->received)
        return error_set(e, STATUS_FAIL,
                         "a part of %s has %llu bytes; 1 to %u are taken and %llu are missing",
                         u->name, (unsigned long long)h->payload_size, UPLOAD_CHUNK_SIZE,
                         (unsigned long long)(u->size - u->received));
    return 0;
}

// The payload goes straight into the map. A chunk of a file that has become complete meanwhile is
// answered as the last one.
int upload_chunk(struct uploads *all, struct connection *c, const struct frame_header *h,
                 const rknnd_ModelChunk *m, struct error *e)
{
    struct model *held = find_known(all, c, m->sha256);
    struct upload *u = upload_find_own(all, c, m->sha256);
    if (held) {
        rknnd_ModelChunkReply reply = {.received = held->file.size, .complete = true};
        int r = upload_keep_model(c, held, e);
        if (r == 0)
            connection_reply(c, h, rknnd_ModelChunkReply_fields, &reply);
        return r;
    }
    if (!u)
        return error_set(e, STATUS_FAIL,
                         "a part of a model came that nobody uploads; offer the model first");
    if (u->owner != c)
        return upload_taken_over(u, e);
    int r = check_chunk(u, h, m, e);
    if (r < 0)
        return r;
    if (!uploads_make_room(all, u->user, h->payload_size))
        return error_set(e, STATUS_MALLOC_FAIL,
                         "the server has no room for more of %s (max-models-size)", u->name);
    u->incoming = (uint32_t)h->payload_size;
    connection_receive(c, &(struct iovec){u->map + u->received, u->incoming}, 1, on_chunk, u);
    return 0;
}
