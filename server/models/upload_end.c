// The last chunk is there: the file is hashed, on threads, while it comes; then it is the store's,
// or those who wait begin again.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/jobs/giveback.h"
#include "server/metrics/metrics.h"
#include "server/models/model_users.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/net/connection.h"
#include "server/observe/trace.h"

#define PATIENT_PART ((size_t)1 << 20) // bytes that are hashed at a time at low priority

// ---- requests that wait -------------------------------------------------------------------------

static void upload_free_request(struct upload_request *r)
{
    if (r->upload->last == r)
        r->upload->last = NULL;
    list_remove(&r->link);
    free(r);
}

static void on_abandoned(struct request *request)
{
    upload_free_request(container_of(request, struct upload_request, request));
}

// A request that is answered later. On failure NULL, and it is not begun.
struct upload_request *upload_wait(struct upload *u, struct connection *c,
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

void upload_answer_offer(struct upload_request *r, bool held, uint64_t offset)
{
    rknnd_ModelOfferReply m = {.held = held, .offset = offset};
    request_answer(&r->request, rknnd_ModelOfferReply_fields, &m, NULL, 0, NULL, NULL);
    upload_free_request(r);
}

static void upload_fail_request(struct upload_request *r, const struct error *e)
{
    request_fail(&r->request, e);
    upload_free_request(r);
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
        upload_fail_request(u->last, &e);
        return;
    }
    u->uploads->metrics->uploads++;
    u->uploads->metrics->upload_bytes += u->size;
    request_answer(&u->last->request, rknnd_ModelChunkReply_fields, &reply, NULL, 0, NULL, NULL);
    upload_free_request(u->last);
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
            upload_fail_request(r, &e);
        else
            upload_answer_offer(r, true, 0);
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
            upload_answer_offer(r, false, 0);
        } else {
            upload_fail_request(r, &e);
        }
    }
}

static void upload_fail(struct upload *u, const struct error *e)
{
    log_info("upload of %s: %s", u->name, e->text);
    if (u->last)
        upload_fail_request(u->last, e);
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

// Hashes what has arrived since the last part; one part at a time, as SHA-256 is sequential. Parts
// are small until the file is complete, so that what is awaited then does not wait for one at low
// priority.
void upload_hash_on(struct upload *u)
{
    if (u->hashing || u->hashed == u->received)
        return;
    u->hashing = true;
    bool complete = u->received == u->size;
    size_t size = (size_t)(u->received - u->hashed); // of what is mapped
    u->part = (struct hashing){.hash = &u->hash,
                               .data = u->map + u->hashed,
                               .size = complete || size < PATIENT_PART ? size : PATIENT_PART,
                               .awaited = complete,
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
        upload_let_go(u);
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
        upload_let_go(u);
    else
        upload_hash_on(u);
}
