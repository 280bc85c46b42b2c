// Uploads: offers, chunks, hashing, and what becomes of broken ones.
//
//     upload_offer(): nobody sends this file yet
//           v         the owner's connection has gone, nobody waits
//       OWNED <--------------------------------------> ORPHAN --> dropped: too old, too many,
//           |                                                     or others need the room
//           |          the same user's next offer of the same file
//           | the last chunk is there: received == size
//           v
//       HASHING   its owner may go now, the hash decides
//           | hash equals the offer's         | it does not
//           v                                 v
//       sealed, given to the store        dropped; those who wait begin again
//
// Uploads are private to their user: what others send, or say of a file, is not to be seen, and
// does not hold anyone up. Only the owner may send chunks. Other connections of the user that offer
// the same file wait in `waiting`: they are answered when the file is complete, or the first of
// them becomes the owner when the present one goes or stands still. A file that another user has
// brought meanwhile is stored once. The whole size is charged with the offer; the cache makes room
// for what really comes. Chunks are hashed on other threads (hashers.h) while later ones arrive;
// the loop writes to the map from `received` on, the thread reads what is before. An upload that is
// dropped while it is hashed is freed when the thread has finished.
#include "server/models/upload.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/text/text.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/jobs/giveback.h"
#include "server/metrics/metrics.h"
#include "server/models/model_users.h"
#include "server/models/store.h"
#include "server/net/connection.h"
#include "server/observe/trace.h"

// An offer that waits for another client's upload, or a last chunk that waits for the hash.
struct upload_request {
    struct request request;
    struct upload *upload;
    struct list link; // in upload->waiting; the last chunk is in no list
    struct connection *connection;
};

void uploads_init(struct uploads *u, uv_loop_t *loop, const struct options *options,
                  struct store *store, struct trace *trace, struct metrics *metrics)
{
    *u = (struct uploads){
        .loop = loop, .options = options, .store = store, .trace = trace, .metrics = metrics};
    list_init(&u->all);
}

// Else the cache could drop it before the client opens it.
int upload_keep_model(struct connection *c, struct model *m, struct error *e)
{
    struct model *old = c->offered;
    int r = m ? model_hold(m, c->session->user, e) : 0;
    if (r < 0)
        return r;
    c->offered = m;
    if (old)
        model_release(old, c->session->user);
    return 0;
}

// ---- requests that wait -------------------------------------------------------------------------

static void free_request(struct upload_request *r)
{
    if (r->upload->last == r)
        r->upload->last = NULL;
    list_remove(&r->link);
    free(r);
}

static void on_abandoned(struct request *request)
{
    free_request(container_of(request, struct upload_request, request));
}

// A request that is answered later. On failure NULL, and it is not begun.
static struct upload_request *wait_for(struct upload *u, struct connection *c,
                                       const struct frame_header *h, struct error *e)
{
    struct upload_request *r = calloc(1, sizeof *r);
    if (!r) {
        error_no_memory(e, "a request", sizeof *r);
        return NULL;
    }
    r->upload = u;
    r->connection = c;
    list_init(&r->link);
    request_begin(&r->request, &c->requests, h, on_abandoned);
    return r;
}

static void answer_offer(struct upload_request *r, bool held, uint64_t offset)
{
    rknnd_ModelOfferReply m = {.held = held, .offset = offset};
    request_answer(&r->request, rknnd_ModelOfferReply_fields, &m, NULL, 0, NULL, NULL);
    free_request(r);
}

static void fail_request(struct upload_request *r, const struct error *e)
{
    request_fail(&r->request, e);
    free_request(r);
}

// ---- one upload ---------------------------------------------------------------------------------

// Whether a connection may see an upload. Local users are known by the kernel; an address of the
// network is none of them for sure, so of its uploads only those that broke off are for all of it.
static bool is_for(const struct upload *u, const struct connection *c)
{
    const struct user *user = c->session->user;
    return u->user == user && (user->local || !u->owner || u->owner->session == c->session);
}

// The upload that an offer continues. One of another size is another file's, whatever its hash is
// said to be.
static struct upload *upload_find(struct uploads *all, const struct connection *c,
                                  const uint8_t sha256[MODEL_SHA256_SIZE], uint64_t size)
{
    struct upload *u;
    list_for_each (u, &all->all, link)
        if (memcmp(u->sha256, sha256, MODEL_SHA256_SIZE) == 0 && u->size == size && is_for(u, c))
            return u;
    return NULL;
}

// The upload that a chunk is for: the connection's own, before others that it may see.
static struct upload *upload_find_own(struct uploads *all, const struct connection *c,
                                      const uint8_t sha256[MODEL_SHA256_SIZE])
{
    struct upload *u, *found = NULL;
    list_for_each (u, &all->all, link)
        if (memcmp(u->sha256, sha256, MODEL_SHA256_SIZE) == 0 && is_for(u, c) &&
            (!found || u->owner == c))
            found = u;
    return found;
}

static void upload_free(struct upload *u)
{
    give_back(u->uploads->store->givebacks, &(struct giveback_memory){u->map, u->size, u->fd}, NULL,
              0);
    sha256_done(&u->hash);
    free(u);
}

static void upload_refund(struct user *user, uint64_t size)
{
    account_refund_sized(&user->account, ACCOUNT_UPLOADS, ACCOUNT_STORAGE, size);
}

// Not to be found any more, and not counted.
static void upload_forget(struct upload *u)
{
    list_remove(&u->link);
    u->uploads->bytes -= u->size;
    u->uploads->taken_bytes -= u->received;
    u->uploads->n_uploads--;
    upload_refund(u->user, u->size);
    user_unref(steal_ptr(u->user));
}

// Of one that is forgotten: freed as soon as no thread hashes it.
static void upload_let_go(struct upload *u)
{
    assert(list_empty(&u->waiting) && !u->last);
    u->dropped = true;
    if (!u->hashing)
        upload_free(u);
}

static void upload_drop(struct upload *u)
{
    upload_forget(u);
    upload_let_go(u);
}

// The memory that becomes the model's file. Its pages are allocated as chunks arrive.
static int map_file(struct upload *u, struct error *e)
{
    u->fd = fd_memory("model", u->size, e);
    if (u->fd < 0)
        return u->fd;
    void *map = mmap(NULL, (size_t)u->size, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, 0);
    if (map == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "%llu bytes for a model",
                               (unsigned long long)u->size);
    u->map = map;
    return sha256_init(&u->hash, e);
}

// A user's orphans that are not complete, and the oldest of them.
static unsigned uploads_count_orphans(const struct uploads *all, const struct user *user,
                                      struct upload **ret_oldest)
{
    struct upload *u;
    unsigned n = 0;
    *ret_oldest = NULL;
    list_for_each (u, &all->all, link)
        if (!u->owner && u->received < u->size && u->user == user) {
            if (!*ret_oldest || u->progress_ms < (*ret_oldest)->progress_ms)
                *ret_oldest = u;
            n++;
        }
    return n;
}

// What is known of a file before it comes, and has come of all, and is cached: drops unused models,
// then ends idle workers, which keep theirs, then drops the user's orphans, oldest first, until
// `size` more bytes fit. What users hold fits the limit, so this only fails after it was lowered.
bool uploads_make_room(struct uploads *all, const struct user *user, uint64_t size)
{
    uint64_t limit = all->store->accounts->total.of[ACCOUNT_STORAGE];
    struct upload *oldest;
    while (size > limit || all->store->bytes + all->taken_bytes > limit - size) {
        if (store_evict(all->store) || store_unload_idle(all->store))
            continue;
        if (uploads_count_orphans(all, user, &oldest) == 0)
            return false;
        upload_drop(oldest);
    }
    return true;
}

// What the user does not go on with makes room for what he wants.
static int upload_charge(struct uploads *all, struct user *user, uint64_t size, struct error *e)
{
    struct upload *oldest;
    int r;
    while ((r = account_charge_sized(&user->account, ACCOUNT_UPLOADS, ACCOUNT_STORAGE, size, e)) <
           0) {
        if (uploads_count_orphans(all, user, &oldest) == 0)
            return r;
        upload_drop(oldest);
    }
    return 0;
}

static unsigned uploads_count_own(const struct uploads *all, const struct connection *c)
{
    const struct upload *u;
    unsigned n = 0;
    list_for_each (u, &all->all, link)
        n += u->owner == c;
    return n;
}

static int upload_admit(struct uploads *all, struct connection *c, uint64_t size, struct error *e)
{
    if (uploads_count_own(all, c) >= UPLOAD_MAX_OWN)
        return error_set(
            e, STATUS_MALLOC_FAIL,
            "the connection has %d unfinished uploads, and can have no more; go on with "
            "those, or close it",
            UPLOAD_MAX_OWN);
    return upload_charge(all, c->session->user, size, e);
}

// One hashing thread for each upload, up to HASHERS_MAX.
static int upload_new(struct uploads *all, struct connection *c, const rknnd_ModelOffer *m,
                      struct upload **ret, struct error *e)
{
    int r = upload_admit(all, c, m->size, e);
    if (r < 0)
        return r;
    struct upload *u = calloc(1, sizeof *u);
    if (!u) {
        upload_refund(c->session->user, m->size);
        return error_no_memory(e, "an upload", sizeof *u);
    }
    u->uploads = all;
    u->owner = c;
    u->fd = -1;
    u->size = m->size;
    memcpy(u->sha256, m->sha256, sizeof u->sha256);
    message_set_text(u->name, m->name);
    text_make_printable(u->name);
    list_init(&u->waiting);
    r = hashers_need(&all->hashers, all->n_uploads + 1, e);
    if (r == 0)
        r = map_file(u, e);
    if (r < 0) {
        upload_refund(c->session->user, m->size);
        upload_free(u);
        return r;
    }
    u->user = user_ref(c->session->user);
    u->progress_ms = uv_now(all->loop);
    list_append(&all->all, &u->link);
    all->bytes += u->size;
    all->n_uploads++;
    u->session = c->session->id;
    trace_add(all->trace, TRACE_UPLOAD, u->session, trace_model_id(u->sha256), u->size, u->name);
    *ret = u;
    return 0;
}

static void give_to(struct upload *u, struct connection *c)
{
    u->owner = c;
    u->progress_ms = uv_now(u->uploads->loop);
}

static int taken_over(const struct upload *u, struct error *e)
{
    return error_set(e, STATUS_TIMEOUT,
                     "another program has gone on with the upload of %s, which had stalled; offer "
                     "the model again",
                     u->name);
}

// The owner has sent part of a chunk and stopped. Its request is refused now, and the rest of the
// payload is dropped when it comes, so that it cannot write into what is now another's.
static void take_away(struct upload *u)
{
    struct error e;
    if (!u->owner || u->incoming == 0)
        return;
    struct frame_header h = u->owner->channel.reader.header;
    u->incoming = 0;
    taken_over(u, &e);
    connection_forget_payload(u->owner);
    connection_reply_error(u->owner, &h, &e);
}

// The first of those who wait becomes the owner, and continues from `received`.
static void upload_hand_over(struct upload *u)
{
    struct upload_request *r = list_first(&u->waiting, struct upload_request, link);
    log_debug("c%u goes on with the upload of %s", r->connection->number, u->name);
    take_away(u);
    give_to(u, r->connection);
    answer_offer(r, false, u->received);
}

// ---- the end of an upload -----------------------------------------------------------------------

// Sealed, so that nobody can change what workers have mapped. The kernel refuses to seal against
// writing while a writable mapping exists, so that is gone by now.
static int seal_and_store(struct upload *u, struct model **ret, struct error *e)
{
    if (fcntl(u->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "a model file cannot be sealed");
    return store_add(u->uploads->store, u->sha256, steal_fd(&u->fd), u->size, u->name, ret, e);
}

// With one reference. Somebody else may have brought the same file meanwhile, or before.
static int add_to_store(struct upload *u, struct model **ret, struct error *e)
{
    struct model *held = store_find(u->uploads->store, u->sha256);
    struct model *m = held ? model_ref(held) : NULL;
    int r = m ? 0 : seal_and_store(u, &m, e);
    if (r == 0)
        r = model_learn(m, u->user, u->name, e);
    if (r < 0)
        model_unref(m);
    else
        *ret = m;
    return r;
}

// The upload's charges have been refunded, so the model's, which are the same, fit.
static void answer_last(struct upload *u, struct model *m)
{
    rknnd_ModelChunkReply reply = {.received = u->size, .complete = true};
    struct error e;
    if (upload_keep_model(u->last->connection, m, &e) < 0) {
        fail_request(u->last, &e);
        return;
    }
    u->uploads->metrics->uploads++;
    u->uploads->metrics->upload_bytes += u->size;
    request_answer(&u->last->request, rknnd_ModelChunkReply_fields, &reply, NULL, 0, NULL, NULL);
    free_request(u->last);
}

static void upload_succeed(struct upload *u, struct model *m)
{
    struct upload_request *r;
    struct error e;
    log_info("model %s was uploaded (%llu bytes)", u->name, (unsigned long long)u->size);
    trace_add(u->uploads->trace, TRACE_UPLOADED, u->session, trace_model_id(u->sha256), u->size,
              u->name);
    upload_forget(u);
    if (u->last)
        answer_last(u, m);
    while ((r = list_first(&u->waiting, struct upload_request, link)))
        if (upload_keep_model(r->connection, m, &e) < 0)
            fail_request(r, &e);
        else
            answer_offer(r, true, 0);
    upload_let_go(u);
}

// After a failure those who wait begin again with an empty file: the first of them sends, the
// others wait for it.
static void start_again(struct upload *old)
{
    struct upload_request *r, *after;
    struct upload *fresh = NULL;
    struct error e;
    list_for_each_safe (r, after, &old->waiting, link) {
        rknnd_ModelOffer offer = {.size = old->size};
        memcpy(offer.sha256, old->sha256, sizeof offer.sha256);
        message_set_text(offer.name, old->name);
        if (fresh) {
            list_remove(&r->link);
            list_append(&fresh->waiting, &r->link);
            r->upload = fresh;
        } else if (upload_new(old->uploads, r->connection, &offer, &fresh, &e) == 0) {
            answer_offer(r, false, 0);
        } else {
            fail_request(r, &e);
        }
    }
}

static void upload_fail(struct upload *u, const struct error *e)
{
    log_info("upload of %s: %s", u->name, e->text);
    if (u->last)
        fail_request(u->last, e);
    upload_forget(u);
    start_again(u);
    upload_let_go(u);
}

// All bytes are hashed. Only a file with the hash that was offered is given to the store.
static void upload_finish(struct upload *u)
{
    uint8_t hash[SHA256_SIZE];
    struct model *m;
    struct error e;
    sha256_final(&u->hash, hash);
    if (memcmp(hash, u->sha256, sizeof hash) != 0) {
        error_set(&e, STATUS_MODEL_INVALID,
                  "the %llu bytes that arrived are not the file that was offered (its SHA-256 is "
                  "another one); they were dropped, send it again",
                  (unsigned long long)u->size);
        upload_fail(u, &e);
    } else if (add_to_store(u, &m, &e) < 0) {
        upload_fail(u, &e);
    } else {
        upload_succeed(u, m);
        model_unref(m);
    }
}

// ---- hashing, on threads ------------------------------------------------------------------------

static void on_hashed(struct hashing *part);

// Hashes what has arrived since the last part; one part at a time, as SHA-256 is sequential.
static void hash_on(struct upload *u)
{
    if (u->hashing || u->hashed == u->received)
        return;
    u->hashing = true;
    u->part = (struct hashing){.hash = &u->hash,
                               .data = u->map + u->hashed,
                               .size = (size_t)(u->received - u->hashed),
                               .done = on_hashed};
    hashers_do(&u->uploads->hashers, &u->part);
}

// All is hashed; an upload that was dropped meanwhile is freed only now.
static void on_unmapped(void *owner)
{
    struct upload *u = owner;
    u->hashing = false;
    u->map = NULL;
    if (u->dropped)
        upload_free(u);
    else
        upload_finish(u);
}

// On the loop; the same.
static void on_hashed(struct hashing *part)
{
    struct upload *u = container_of(part, struct upload, part);
    u->hashed += part->size;
    if (!u->dropped && u->hashed == u->size) {
        give_back_map(u->uploads->store->givebacks, u->map, u->size, on_unmapped, u);
        return;
    }
    u->hashing = false;
    if (u->dropped)
        upload_free(u);
    else
        hash_on(u);
}

// ---- messages -----------------------------------------------------------------------------------

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
        struct upload_request *r = wait_for(u, c, h, e);
        if (!r)
            return e->code;
        list_append(&u->waiting, &r->link);
        return 0;
    }
    give_to(u, c);
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
        u->last = wait_for(u, c, h, &e);
        if (!u->last)
            connection_reply_error(c, h, &e);
    } else {
        rknnd_ModelChunkReply m = {.received = u->received};
        connection_reply(c, h, rknnd_ModelChunkReply_fields, &m);
    }
    hash_on(u);
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
        return taken_over(u, e);
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

// ---- owners that go -----------------------------------------------------------------------------

// The owner's connection has gone. An upload of which nothing has arrived is not worth keeping.
static void upload_disown(struct upload *u)
{
    struct upload *oldest;
    u->owner = NULL;
    u->incoming = 0;
    u->progress_ms = uv_now(u->uploads->loop);
    if (u->received == u->size)
        return; // the hash decides
    if (!list_empty(&u->waiting))
        upload_hand_over(u);
    else if (u->received == 0 || u->uploads->options->upload_ttl_s == 0)
        upload_drop(u);
    else if (uploads_count_orphans(u->uploads, u->user, &oldest) > UPLOAD_MAX_ORPHANS)
        upload_drop(oldest);
}

void uploads_disown(struct uploads *all, struct connection *c)
{
    struct upload *u, *after;
    list_for_each_safe (u, after, &all->all, link)
        if (u->owner == c)
            upload_disown(u);
    upload_keep_model(c, NULL, NULL);
}

// Whether the owner has stopped sending while others wait for the model: its program may be stopped
// by a debugger.
static bool stands_still(const struct upload *u, uint64_t now_ms)
{
    uint64_t age =
        u->incoming > 0 ? connection_silent_ms(u->owner, now_ms) : now_ms - u->progress_ms;
    return age > u->uploads->options->peer_timeout_ms;
}

static void upload_sweep(struct upload *u, uint64_t now_ms)
{
    const struct options *o = u->uploads->options;
    uint64_t age = now_ms - u->progress_ms;
    if (u->received == u->size)
        return;
    if (!u->owner && age > (uint64_t)o->upload_ttl_s * 1000)
        upload_drop(u);
    else if (u->owner && !list_empty(&u->waiting) && stands_still(u, now_ms))
        upload_hand_over(u);
}

void uploads_sweep(struct uploads *all, uint64_t now_ms)
{
    struct upload *u, *after;
    list_for_each_safe (u, after, &all->all, link)
        upload_sweep(u, now_ms);
}

void uploads_close(struct uploads *all)
{
    struct upload *u, *after;
    list_for_each_safe (u, after, &all->all, link)
        upload_drop(u);
    hashers_close(&all->hashers);
}
