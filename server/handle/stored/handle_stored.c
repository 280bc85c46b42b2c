// Models by name: MODEL_FIND, MODEL_MANIFEST, MODEL_REMOVE, MODEL_DEFAULT and MODEL_PULL. What they
// ask of the disk is done by the shelf's thread. (MODEL_PUSH: handle_stored_push.c, MODEL_LIST:
// handle_stored_list.c)
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/models/model_users.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/shelf/shelf_fetch.h"
#include "server/shelf/stored_message.h"

// ---- one question to the disk -------------------------------------------------------------------

// The request may be abandoned at any time; what the disk has begun is done all the same.
struct ask {
    struct request request;
    struct shelf_work work;
    const struct services *services;
    struct stored_viewer viewer;
    char name[SHELF_NAME_SIZE], version[SHELF_VERSION_SIZE];
    char *text;
    const char *what;                // of changes: what becomes of it
    char by[ORIGIN_SOURCE_SIZE + 8]; // of changes: whose they are, who may have gone
};

static void ask_free(struct ask *a)
{
    shelf_end_work(&a->work);
    free(a->text);
    free(a);
}

static void ask_stop(struct shelf_work *w)
{
    if (!w->on_thread)
        ask_free(container_of(w, struct ask, work));
}

static void ask_fail(struct ask *a, const struct error *e)
{
    request_fail(&a->request, e);
    ask_free(a);
}

// What waits for its turn at the disk goes; else those who come and go would fill the line.
static void ask_abandoned(struct request *r)
{
    struct ask *a = container_of(r, struct ask, request);
    if (!a->work.on_thread)
        ask_free(a);
}

static void ask_start(struct request *r)
{
    shelf_do(&container_of(r, struct ask, request)->work);
}

static int ask_new(struct connection *c, const struct frame_header *h, const rknnd_StoredName *name,
                   void (*run)(struct shelf_work *w), void (*done)(struct shelf_work *w),
                   struct ask **ret, struct error *e)
{
    int r = shelf_check(c->services->shelf, e);
    if (r == 0 && name)
        r = stored_check_name(name->name, name->version, e);
    struct ask *a = r == 0 ? calloc(1, sizeof *a) : NULL;
    if (!a)
        return r < 0 ? r : error_no_memory(e, "a request", sizeof *a);
    a->services = c->services;
    stored_viewer_set(&a->viewer, c);
    a->work.run = run;
    a->work.done = done;
    a->work.stop = ask_stop;
    if (name) {
        message_set_text(a->name, name->name);
        message_set_text(a->version, name->version);
    }
    request_begin(&a->request, &c->requests, h, ask_abandoned);
    shelf_begin_work(c->services->shelf, &a->work, c->user);
    *ret = a;
    return 0;
}

// ---- MODEL_MANIFEST -----------------------------------------------------------------------------

static void manifest_run(struct shelf_work *w)
{
    struct ask *a = container_of(w, struct ask, work);
    struct stored found;
    w->error.code = shelf_find(w->root, a->name, a->version, &found, &a->text, &w->error);
    if (w->error.code == 0 && !stored_names_seen(&a->viewer, found.manifest.owner))
        w->error.code = manifest_hide(&a->text, &w->error);
}

static void manifest_done(struct shelf_work *w)
{
    struct ask *a = container_of(w, struct ask, work);
    if (w->error.code < 0) {
        ask_fail(a, &w->error);
        return;
    }
    struct bytes text = {(const uint8_t *)a->text, strlen(a->text)};
    request_answer_copy(&a->request, rknnd_Empty_fields, &(rknnd_Empty){0}, text, "a manifest");
    ask_free(a);
}

int handle_model_manifest(struct connection *c, const struct frame_header *h,
                          const union message_any *any, struct error *e)
{
    struct ask *a;
    int r = ask_new(c, h, &any->MODEL_MANIFEST_request, manifest_run, manifest_done, &a, e);
    if (r == 0)
        request_when_room(&a->request, ask_start);
    return r;
}

// ---- MODEL_REMOVE, MODEL_DEFAULT ----------------------------------------------------------------

static void change_done(struct shelf_work *w)
{
    struct ask *a = container_of(w, struct ask, work);
    struct shelf *s = w->shelf;
    const char *at = *a->version ? "@" : "";
    if (w->error.code < 0) {
        log_warn("stored model %s%s%s is not %s, as %s asked: %s", a->name, at, a->version, a->what,
                 a->by, w->error.text);
        ask_fail(a, &w->error);
        return;
    }
    log_info("stored model %s%s%s is %s: %s asked for it", a->name, at, a->version, a->what, a->by);
    request_answer(&a->request, rknnd_Empty_fields, &(rknnd_Empty){0}, NULL, 0, NULL, NULL);
    ask_free(a);
    shelf_note_change(s);
}

static int begin_change(struct connection *c, const struct frame_header *h,
                        const rknnd_StoredName *name, void (*run)(struct shelf_work *w),
                        const char *what, struct error *e)
{
    struct ask *a;
    int r = ask_new(c, h, name, run, change_done, &a, e);
    if (r < 0)
        return r;
    a->what = what;
    snprintf(a->by, sizeof a->by, "%s", c->user->title);
    shelf_do(&a->work);
    return 0;
}

static void remove_run(struct shelf_work *w)
{
    struct ask *a = container_of(w, struct ask, work);
    w->error.code = shelf_remove(w->root, a->name, a->version, &w->error);
}

// Contexts that are open go on: they have the model in memory.
int handle_model_remove(struct connection *c, const struct frame_header *h,
                        const union message_any *any, struct error *e)
{
    return begin_change(c, h, &any->MODEL_REMOVE_request, remove_run, "removed", e);
}

static void default_run(struct shelf_work *w)
{
    struct ask *a = container_of(w, struct ask, work);
    w->error.code = shelf_set_default(w->root, a->name, a->version, &w->error);
}

int handle_model_default(struct connection *c, const struct frame_header *h,
                         const union message_any *any, struct error *e)
{
    return begin_change(c, h, &any->MODEL_DEFAULT_request, default_run, "the default", e);
}

// ---- MODEL_FIND ---------------------------------------------------------------------------------

struct find {
    struct request request;
    struct shelf_fetch fetch;
};

static void find_stopped(struct shelf_fetch *f)
{
    if (!f->work.on_thread)
        free(container_of(f, struct find, fetch));
}

// Whoever may run models may run those that are stored: he knows this one from here on.
static int find_keep(struct connection *c, struct model *m, const struct stored *s, struct error *e)
{
    char name[SHELF_NAME_SIZE + SHELF_VERSION_SIZE];
    snprintf(name, sizeof name, "%s@%s", s->name, s->version);
    int r = model_learn(m, c->session->user, name, e);
    return r == 0 ? upload_keep_model(c, m, e) : r;
}

static void find_fetched(struct shelf_fetch *f, struct model *m, const struct error *e)
{
    struct find *find = container_of(f, struct find, fetch);
    struct connection *c = find->request.connection;
    rknnd_StoredModel reply;
    struct error own;
    if (c && !e && find_keep(c, m, &f->found, &own) < 0)
        e = &own;
    if (c && e) {
        request_fail(&find->request, e);
    } else if (c) {
        stored_describe_to(c, c->services->store, &f->found, &reply);
        request_answer(&find->request, rknnd_StoredModel_fields, &reply, NULL, 0, NULL, NULL);
    }
    free(find);
}

static void find_abandoned(struct request *r)
{
    struct find *find = container_of(r, struct find, request);
    if (shelf_fetch_cancel(&find->fetch))
        free(find);
}

int handle_model_find(struct connection *c, const struct frame_header *h,
                      const union message_any *any, struct error *e)
{
    const rknnd_StoredName *m = &any->MODEL_FIND_request;
    int r = shelf_check(c->services->shelf, e);
    if (r == 0)
        r = stored_check_name(m->name, m->version, e);
    struct find *find = r == 0 ? calloc(1, sizeof *find) : NULL;
    if (!find)
        return r < 0 ? r : error_no_memory(e, "a request", sizeof *find);
    find->fetch.uploads = c->services->uploads;
    find->fetch.fetched = find_fetched;
    find->fetch.stopped = find_stopped;
    message_set_text(find->fetch.name, m->name);
    message_set_text(find->fetch.version, m->version);
    request_begin(&find->request, &c->requests, h, find_abandoned);
    shelf_fetch(c->services->shelf, &find->fetch, c->user);
    return 0;
}

// ---- MODEL_PULL ---------------------------------------------------------------------------------

struct pull {
    struct request request;
    uint8_t sha256[MODEL_SHA256_SIZE];
    uint64_t offset;
};

static int pull_read(const struct pull *p, uint8_t **ret, size_t *ret_size, struct error *e)
{
    const struct model *m = p->request.connection->offered;
    if (!m || memcmp(m->sha256, p->sha256, sizeof p->sha256) != 0)
        return error_set(e, STATUS_PARAM_INVALID, "the connection has not found this model");
    if (p->offset >= m->file.size)
        return error_set(e, STATUS_PARAM_INVALID, "the model ends at %llu",
                         (unsigned long long)m->file.size);
    uint64_t left = m->file.size - p->offset;
    size_t size = left < UPLOAD_CHUNK_SIZE ? (size_t)left : UPLOAD_CHUNK_SIZE;
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return error_no_memory(e, "a part of a model", size);
    if (pread(m->file.fd, bytes, size, (off_t)p->offset) != (ssize_t)size) {
        free(bytes);
        return error_set(e, STATUS_FAIL, "the model's memory cannot be read");
    }
    *ret = bytes;
    *ret_size = size;
    return 0;
}

// The model is in memory, so this does not wait for the disk.
static void pull_answer(struct request *r)
{
    struct pull *p = container_of(r, struct pull, request);
    struct error e;
    uint8_t *bytes;
    size_t size;
    if (pull_read(p, &bytes, &size, &e) < 0) {
        request_fail(r, &e);
    } else {
        struct iovec payload = {bytes, size};
        request_answer(r, rknnd_Empty_fields, &(rknnd_Empty){0}, &payload, 1, free, bytes);
    }
    free(p);
}

int handle_model_pull(struct connection *c, const struct frame_header *h,
                      const union message_any *any, struct error *e)
{
    struct pull *p = request_new(&c->requests, h, sizeof *p, e);
    if (!p)
        return e->code;
    memcpy(p->sha256, any->MODEL_PULL_request.sha256, sizeof p->sha256);
    p->offset = any->MODEL_PULL_request.offset;
    request_when_room(&p->request, pull_answer);
    return 0;
}
