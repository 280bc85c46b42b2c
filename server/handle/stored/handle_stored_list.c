// MODEL_LIST. There may be thousands of stored models, and each is looked for among the models that
// are in memory: so the shelf's thread reads what the disk has, once for all who have asked, and
// the loop makes the lines in slices (net/snapshots.h).
#include "server/handle/stored/handle_stored_list.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/shelf/shelf.h"
#include "server/shelf/stored_message.h"

#define LIST_TURN 64 // lines in a slice

// When the server stops the thread may keep it.
struct stored_read {
    struct shelf_work work;
    struct stored_list *of;
    struct stored *all;
    size_t n;
};

static struct stored_list *list_of(struct snapshots *all)
{
    return container_of(all, struct stored_list, all);
}

static void read_free(struct stored_read *d)
{
    if (!d)
        return;
    shelf_end_work(&d->work);
    free(d->all);
    free(d);
}

// On the thread.
static void read_run(struct shelf_work *w)
{
    struct stored_read *d = container_of(w, struct stored_read, work);
    w->error.code = shelf_list(w->root, &d->all, &d->n, &w->error);
}

static void read_done(struct shelf_work *w)
{
    snapshots_begin(&container_of(w, struct stored_read, work)->of->all);
}

static void read_stop(struct shelf_work *w)
{
    struct stored_read *d = container_of(w, struct stored_read, work);
    d->of->read = NULL;
    if (!w->on_thread)
        read_free(d);
}

// Nobody's own work: all who have asked wait for it.
static void list_prepare(struct snapshots *all)
{
    struct stored_list *l = list_of(all);
    struct stored_read *d = l->read = calloc(1, sizeof *d);
    if (!d) {
        snapshots_begin(all);
        return;
    }
    d->of = l;
    d->work.run = read_run;
    d->work.done = read_done;
    d->work.stop = read_stop;
    shelf_begin_work(l->services->shelf, &d->work, NULL);
    shelf_do(&d->work);
}

static int list_begin(struct snapshots *all, struct error *e)
{
    struct stored_list *l = list_of(all);
    const struct stored_read *d = l->read;
    if (!d)
        return error_no_memory(e, "a list of models", sizeof *d);
    if (d->work.error.code < 0) {
        *e = d->work.error;
        read_free(steal_ptr(l->read));
        return e->code;
    }
    shelf_count(l->services->shelf, d->all, d->n);
    l->at = 0;
    return 0;
}

static int list_more(struct snapshots *all, struct error *e)
{
    struct stored_list *l = list_of(all);
    rknnd_StoredModel m;
    for (unsigned i = 0; i < LIST_TURN && l->at < l->read->n; i++) {
        stored_describe(l->services->store, &l->read->all[l->at++], &m);
        int r = delimited_put(&l->lines, rknnd_StoredModel_fields, &m, e);
        if (r < 0)
            return r;
    }
    return l->at < l->read->n;
}

static int list_end(struct snapshots *all, void **data, size_t *size, struct error *e)
{
    struct stored_list *l = list_of(all);
    (void)e;
    *data = l->lines.data;
    *size = l->lines.size;
    l->lines = (struct delimited){0};
    read_free(steal_ptr(l->read));
    return 0;
}

static void list_answer(struct snapshots *all, struct request *r, struct snapshot *n)
{
    const rknnd_StoredListReply m = {.n_models = (uint32_t)list_of(all)->at};
    struct stored_viewer v;
    struct delimited own;
    struct error e;
    stored_viewer_set(&v, r->connection);
    if (v.all) {
        snapshot_answer(n, r, rknnd_StoredListReply_fields, &m);
        return;
    }
    if (stored_list_hide(&v, (struct bytes){n->data, n->size}, &own, &e) < 0) {
        request_fail(r, &e);
        return;
    }
    struct iovec payload = {own.data, own.size};
    request_answer(r, rknnd_StoredListReply_fields, &m, &payload, own.size > 0, free, own.data);
}

int handle_model_list(struct connection *c, const struct frame_header *h,
                      const union message_any *any, struct error *e)
{
    (void)any;
    int r = shelf_check(c->services->shelf, e);
    return r < 0 ? r : snapshots_ask(&c->services->stored_list->all, &c->requests, h, e);
}

void stored_list_init(struct stored_list *l, const struct services *services)
{
    static const struct snapshots_ops ops = {.part = "models by name",
                                             .prepare = list_prepare,
                                             .begin = list_begin,
                                             .more = list_more,
                                             .end = list_end,
                                             .answer = list_answer};
    l->services = services;
    snapshots_init(&l->all, &ops, services->loop);
}

void stored_list_close(struct stored_list *l)
{
    snapshots_close(&l->all);
}
