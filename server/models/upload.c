// Uploads: whose they are, and what becomes of broken ones. Messages are in upload_messages.c,
// hashing and the end in upload_end.c.
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
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/text/text.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/jobs/giveback.h"
#include "server/models/model_users.h"
#include "server/models/store.h"
#include "server/net/connection.h"
#include "server/observe/trace.h"

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
struct upload *upload_find(struct uploads *all, const struct connection *c,
                           const uint8_t sha256[MODEL_SHA256_SIZE], uint64_t size)
{
    struct upload *u;
    list_for_each (u, &all->all, link)
        if (memcmp(u->sha256, sha256, MODEL_SHA256_SIZE) == 0 && u->size == size && is_for(u, c))
            return u;
    return NULL;
}

// The upload that a chunk is for: the connection's own, before others that it may see.
struct upload *upload_find_own(struct uploads *all, const struct connection *c,
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
void upload_forget(struct upload *u)
{
    list_remove(&u->link);
    u->uploads->bytes -= u->size;
    u->uploads->taken_bytes -= u->received;
    u->uploads->n_uploads--;
    upload_refund(u->user, u->size);
    user_unref(steal_ptr(u->user));
}

// Of one that is forgotten: freed as soon as no thread hashes it.
void upload_let_go(struct upload *u)
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
int upload_new(struct uploads *all, struct connection *c, const rknnd_ModelOffer *m,
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

void upload_give_to(struct upload *u, struct connection *c)
{
    u->owner = c;
    u->progress_ms = uv_now(u->uploads->loop);
}

int upload_taken_over(const struct upload *u, struct error *e)
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
    upload_taken_over(u, &e);
    connection_forget_payload(u->owner);
    connection_reply_error(u->owner, &h, &e);
}

// The first of those who wait becomes the owner, and continues from `received`.
static void upload_hand_over(struct upload *u)
{
    struct upload_request *r = list_first(&u->waiting, struct upload_request, link);
    log_debug("c%u goes on with the upload of %s", r->connection->number, u->name);
    take_away(u);
    upload_give_to(u, r->connection);
    upload_answer_offer(r, false, u->received);
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
