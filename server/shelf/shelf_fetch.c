//     FINDS -- the manifest has the hash --> in memory already: fetched()
//       |                                         ^
//       +--> LOADS, or WAITS for another that does, and looks again
#include "server/shelf/shelf_fetch.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/models/store.h"
#include "server/models/upload.h"

static void fetch_end(struct shelf_fetch *f, struct model *m, const struct error *e)
{
    shelf_end_work(&f->work);
    f->fetched(f, m, e);
}

static void fetch_load(struct shelf_work *w)
{
    struct shelf_fetch *f = container_of(w, struct shelf_fetch, work);
    w->error.code = shelf_load(w->root, &f->found, &f->fd, &w->error);
}

static bool is_same(const struct shelf_fetch *a, const struct shelf_fetch *b)
{
    return memcmp(a->found.manifest.sha256, b->found.manifest.sha256, SHA256_SIZE) == 0;
}

static void fetch_done(struct shelf_work *w);

// Those of the shelf's works that are fetches, and in this state, for the same model.
static struct shelf_fetch *find_other(const struct shelf_fetch *f, int state)
{
    struct shelf_work *w;
    list_for_each (w, &f->work.shelf->works, link) {
        struct shelf_fetch *o = container_of(w, struct shelf_fetch, work);
        if (w->done == fetch_done && o != f && (int)o->state == state && is_same(o, f))
            return o;
    }
    return NULL;
}

// True: it loads. Its bytes count from here on: others load at the same time.
static bool fetch_begin_load(struct shelf_fetch *f)
{
    struct error e;
    uint64_t size = f->found.manifest.size;
    if (find_other(f, FETCH_LOADS)) {
        f->state = FETCH_WAITS;
        return false;
    }
    if (!uploads_make_room(f->uploads, NULL, size)) {
        error_set(&e, STATUS_MALLOC_FAIL,
                  "the server has no room for the %llu bytes of %s (max-models-size)",
                  (unsigned long long)size, f->name);
        fetch_end(f, NULL, &e);
        return false;
    }
    f->state = FETCH_LOADS;
    f->uploads->taken_bytes += size;
    f->work.run = fetch_load;
    shelf_do(&f->work);
    return true;
}

// True: it loads. False: it may have ended.
static bool fetch_look(struct shelf_fetch *f)
{
    struct model *m = store_find(f->uploads->store, f->found.manifest.sha256);
    if (!m)
        return fetch_begin_load(f);
    fetch_end(f, m, NULL);
    return false;
}

// Others that wait find it in memory; or they try for themselves, one after the other.
static void wake_others(const struct stored *found, struct shelf *s)
{
    struct shelf_fetch key = {.found = *found, .work.shelf = s}, *o;
    while ((o = find_other(&key, FETCH_WAITS))) {
        o->state = FETCH_FINDS;
        if (fetch_look(o))
            return;
    }
}

// The name is what tells people which model it is.
static int fetch_keep(struct shelf_fetch *f, struct model **ret, struct error *e)
{
    char name[SHELF_NAME_SIZE + SHELF_VERSION_SIZE];
    const struct manifest *m = &f->found.manifest;
    struct model *held = store_find(f->uploads->store, m->sha256);
    int fd = f->fd;
    f->fd = -1;
    if (held) {
        fd_close(fd);
        *ret = model_ref(held);
        return 0;
    }
    snprintf(name, sizeof name, "%s@%s", f->name, f->found.version);
    return store_add(f->uploads->store, m->sha256, fd, m->size, name, ret, e);
}

static void fetch_loaded(struct shelf_fetch *f)
{
    struct stored found = f->found;
    struct shelf *s = f->work.shelf;
    struct error e = f->work.error;
    cleanup(model_unref_p) struct model *m = NULL;
    f->uploads->taken_bytes -= found.manifest.size;
    if (e.code == 0)
        e.code = fetch_keep(f, &m, &e);
    s->n_loads += e.code == 0;
    if (e.code < 0)
        log_warn("%s", e.text);
    fetch_end(f, m, e.code < 0 ? &e : NULL);
    wake_others(&found, s);
}

static void fetch_done(struct shelf_work *w)
{
    struct shelf_fetch *f = container_of(w, struct shelf_fetch, work);
    if (f->state == FETCH_LOADS)
        fetch_loaded(f);
    else if (w->error.code < 0)
        fetch_end(f, NULL, &w->error);
    else
        fetch_look(f);
}

static void fetch_find(struct shelf_work *w)
{
    struct shelf_fetch *f = container_of(w, struct shelf_fetch, work);
    w->error.code = shelf_find(w->root, f->name, f->version, &f->found, NULL, &w->error);
}

static void fetch_stop(struct shelf_work *w)
{
    struct shelf_fetch *f = container_of(w, struct shelf_fetch, work);
    f->stopped(f);
}

void shelf_fetch(struct shelf *s, struct shelf_fetch *f, struct user *user)
{
    f->fd = -1;
    f->state = FETCH_FINDS;
    f->work.run = fetch_find;
    f->work.done = fetch_done;
    f->work.stop = fetch_stop;
    shelf_begin_work(s, &f->work, user);
    shelf_do(&f->work);
}

bool shelf_fetch_cancel(struct shelf_fetch *f)
{
    if (f->state != FETCH_FINDS || f->work.on_thread)
        return false;
    shelf_end_work(&f->work);
    return true;
}
