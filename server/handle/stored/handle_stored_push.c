// MODEL_PUSH: a model that the client has brought gets a name in the model store.
//
//   labels come --> wait for others' pushes --> a worker describes it --> the shelf's thread writes
//
// One is under way at a time: each takes a worker, and the disk. Users take turns. Labels count as
// bytes that are under way for the user.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/models/model_users.h"
#include "server/models/store.h"
#include "server/runner/runner_query.h"
#include "server/shelf/shelf.h"
#include "server/shelf/stored_message.h"

#define MAX_LABELS (2u << 20) // bytes

struct push {
    struct request request;
    struct shelf_work work;
    const struct services *services;
    struct model *model; // one reference, until the server stops
    int fd;              // of its bytes, for the thread
    char name[SHELF_NAME_SIZE], version[SHELF_VERSION_SIZE];
    struct shelf_put put;
    uint8_t *labels;
    size_t labels_size;
    struct account *account; // of the user, while they are charged
    uint8_t *description;
    struct stored stored;
    enum { PUSH_RECEIVES, PUSH_WAITS, PUSH_DESCRIBES, PUSH_WRITES } state;
};

static void push_next(struct shelf *s);

static void push_refund(struct push *p)
{
    if (p->account)
        account_refund_sized(steal_ptr(p->account), ACCOUNT_REQUESTS, ACCOUNT_BYTES,
                             p->labels_size);
}

static void push_free(struct push *p)
{
    push_refund(p);
    model_unref(p->model);
    fd_close(p->fd);
    free(p->labels);
    free(p->description);
    shelf_end_work(&p->work); // and with it the user
    free(p);
}

static void push_end(struct push *p, const struct error *e)
{
    struct shelf *s = p->work.shelf;
    if (e)
        request_fail(&p->request, e);
    push_free(p);
    push_next(s);
}

// What has begun goes on to its end.
static void push_abandoned(struct request *r)
{
    struct push *p = container_of(r, struct push, request);
    if (p->state <= PUSH_WAITS)
        push_free(p);
}

static void push_stop(struct shelf_work *w)
{
    struct push *p = container_of(w, struct push, work);
    push_refund(p);
    model_unref(steal_ptr(p->model));
    if (!w->on_thread)
        push_free(p);
}

// ---- writing ------------------------------------------------------------------------------------

static void push_write(struct shelf_work *w)
{
    struct push *p = container_of(w, struct push, work);
    w->error.code = shelf_put(w->root, &p->put, &p->stored, &w->error);
}

static void push_written(struct shelf_work *w)
{
    struct push *p = container_of(w, struct push, work);
    struct shelf *s = w->shelf;
    rknnd_StoredModel reply;
    if (w->error.code < 0) {
        log_warn("%s was not stored: %s", p->name, w->error.text);
        push_end(p, &w->error);
        return;
    }
    log_info("model %s@%s is stored (%llu bytes, brought by %s)", p->stored.name, p->stored.version,
             (unsigned long long)p->stored.manifest.size, p->stored.manifest.owner);
    s->n_pushes++;
    // An abandoned one has nobody to answer. With the same bytes it may be another's that is there.
    if (p->request.connection) {
        stored_describe_to(p->request.connection, p->services->store, &p->stored, &reply);
        request_answer(&p->request, rknnd_StoredModel_fields, &reply, NULL, 0, NULL, NULL);
    }
    push_end(p, NULL);
    shelf_note_change(s);
}

// ---- describing ---------------------------------------------------------------------------------

// The copy is the thread's; `json` is valid only inside.
static int push_keep_description(struct push *p, struct bytes json, struct error *e)
{
    p->description = malloc(json.size + 1);
    if (!p->description)
        return error_no_memory(e, "a description", json.size);
    memcpy(p->description, json.data, json.size);
    p->put.description = (struct bytes){p->description, json.size};
    return 0;
}

static void push_described(void *owner, const struct error *why, struct bytes json)
{
    struct push *p = owner;
    struct error e;
    if (!why && push_keep_description(p, json, &e) < 0)
        why = &e;
    if (why) {
        push_end(p, why);
        return;
    }
    p->state = PUSH_WRITES;
    shelf_do(&p->work);
}

static int push_describe(struct push *p, struct error *e)
{
    struct shelf *s = p->work.shelf;
    p->state = PUSH_DESCRIBES;
    user_person(p->work.user)->pushed = ++s->push_turns;
    return runner_describe(p->services->runner_options, &p->model->file, push_described, p, e);
}

// Of the user whose last turn is the longest ago, in order of arrival. NULL: none waits, or one is
// under way.
static struct push *push_choose(const struct shelf *s)
{
    struct shelf_work *w;
    struct push *best = NULL;
    list_for_each (w, &s->works, link) {
        struct push *p = container_of(w, struct push, work);
        if (w->run != push_write || p->state == PUSH_RECEIVES)
            continue;
        if (p->state > PUSH_WAITS)
            return NULL;
        if (!best || user_person(w->user)->pushed < user_person(best->work.user)->pushed)
            best = p;
    }
    return best;
}

static void push_next(struct shelf *s)
{
    struct push *p;
    struct error e;
    while ((p = push_choose(s)) && push_describe(p, &e) < 0) {
        request_fail(&p->request, &e);
        push_free(p);
    }
}

// ---- asking -------------------------------------------------------------------------------------

static void on_labels(struct connection *c, void *owner)
{
    struct push *p = owner;
    (void)c;
    p->put.labels = (struct bytes){p->labels, p->labels_size};
    p->state = PUSH_WAITS;
    push_next(p->work.shelf);
}

static void push_fill(struct push *p, const struct connection *c, const rknnd_ModelPush *m)
{
    const struct user *u = c->session->user;
    struct manifest *manifest = &p->put.manifest;
    const struct model *model = p->model;
    p->services = c->services;
    message_set_text(p->name, m->name);
    message_set_text(p->version, m->version);
    p->put.name = p->name;
    p->put.version = p->version;
    p->put.fd = p->fd;
    p->put.limits.owner = u->quota.limits.of[ACCOUNT_STORED];
    p->put.limits.all = c->services->accounts->total.of[ACCOUNT_STORED];
    memcpy(manifest->sha256, model->sha256, sizeof manifest->sha256);
    manifest->size = model->file.size;
    time_t now = time(NULL);
    manifest->time_s = now > 0 ? (uint64_t)now : 0; // a board without a clock may be before 1970
    message_set_text(manifest->file, model_name_for(model, u));
    message_set_text(manifest->owner, u->title);
}

// NULL: out of memory.
static struct push *push_new(const struct frame_header *h, struct model *model, struct error *e)
{
    size_t size = (size_t)h->payload_size;
    struct push *p = calloc(1, sizeof *p);
    cleanup(free_p) uint8_t *labels = malloc(size + 1);
    int fd = fcntl(model->file.fd, F_DUPFD_CLOEXEC, 0);
    if (!p || fd < 0 || !labels) {
        fd_close(fd);
        free(p);
        error_no_memory(e, "a model to be stored", size);
        return NULL;
    }
    p->fd = fd;
    p->labels = steal_ptr(labels);
    p->labels_size = size;
    p->model = model_ref(model);
    p->work.run = push_write;
    p->work.done = push_written;
    p->work.stop = push_stop;
    return p;
}

static int check_push(const struct connection *c, const struct frame_header *h,
                      const rknnd_ModelPush *m, struct error *e)
{
    int r = shelf_check(c->services->shelf, e);
    if (r == 0)
        r = stored_check_name(m->name, m->version, e);
    if (r == 0 && h->payload_size > MAX_LABELS)
        r = error_set(e, STATUS_PARAM_INVALID, "%llu bytes of labels; at most %u are kept",
                      (unsigned long long)h->payload_size, MAX_LABELS);
    return r;
}

int handle_model_push(struct connection *c, const struct frame_header *h,
                      const union message_any *any, struct error *e)
{
    const rknnd_ModelPush *m = &any->MODEL_PUSH_request;
    cleanup(model_unref_p) struct model *model = NULL;
    int r = check_push(c, h, m, e);
    if (r == 0)
        r = store_get(c->services->store, m->sha256, "", c->session->user, &model, e);
    if (r == 0)
        r = account_charge_sized(&c->user->account, ACCOUNT_REQUESTS, ACCOUNT_BYTES,
                                 h->payload_size, e);
    if (r < 0)
        return r;
    struct push *p = push_new(h, model, e);
    if (!p) {
        account_refund_sized(&c->user->account, ACCOUNT_REQUESTS, ACCOUNT_BYTES, h->payload_size);
        return e->code;
    }
    p->account = &c->user->account;
    push_fill(p, c, m);
    request_begin(&p->request, &c->requests, h, push_abandoned);
    shelf_begin_work(c->services->shelf, &p->work, c->user);
    if (p->labels_size > 0)
        connection_receive(c, &(struct iovec){p->labels, p->labels_size}, 1, on_labels, p);
    else
        on_labels(c, p);
    return 0;
}
