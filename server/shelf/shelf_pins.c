//   shelf_pins_update() --> fetch --> another model than it has? use it --> loaded: the old one
//   goes
//
// A pin that is to go while the shelf is asked goes when that has answered.
#include "server/shelf/shelf_pins.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/models/model_users.h"
#include "server/models/upload.h"
#include "server/shelf/shelf_fetch.h"

struct pin;

struct pin_use {
    struct pin *pin;
    struct model_use use;
    struct model *model; // held by the user; NULL: none
};

struct pin {
    struct list link;
    struct shelf_pins *all;
    struct shelf_fetch fetch;
    bool fetching, again; // again: something has changed meanwhile
    bool unwanted;
    char text[SHELF_NAME_SIZE + SHELF_VERSION_SIZE]; // of the option
    struct user *user;                               // one reference
    struct pin_use uses[2]; // of the model that it has, and of the one that comes after it
    unsigned now;           // which of them it has
};

void shelf_pins_init(struct shelf_pins *p, struct shelf *shelf, struct uploads *uploads,
                     struct users *users, const struct options *options)
{
    *p =
        (struct shelf_pins){.shelf = shelf, .uploads = uploads, .users = users, .options = options};
    list_init(&p->all);
}

static void pin_let_go(struct pin_use *u)
{
    if (!u->model)
        return;
    model_use_end(&u->use);
    model_release(steal_ptr(u->model), u->pin->user);
}

// Without what it uses. What the thread has is freed when that has answered.
static void pin_end(struct pin *p)
{
    list_remove(&p->link);
    pin_let_go(&p->uses[0]);
    pin_let_go(&p->uses[1]);
    user_unref(steal_ptr(p->user));
    p->unwanted = true;
    if (!p->fetching)
        free(p);
}

// After a failure the use has ended by itself.
static void pin_ready(struct model_use *use, const struct error *e)
{
    struct pin_use *u = container_of(use, struct pin_use, use);
    struct pin *p = u->pin;
    if (e) {
        log_warn("preload %s: %s", p->text, e->text);
        model_release(steal_ptr(u->model), p->user);
        return;
    }
    log_info("stored model %s stays loaded, as %s", p->text, u->model->file.name);
    if (u != &p->uses[p->now])
        pin_let_go(&p->uses[p->now]);
    p->now = (unsigned)(u - p->uses);
}

// The model that it has stays until this one is loaded. One that was to come after it, and is not
// loaded yet, is given up.
static void pin_take(struct pin *p, struct model *m)
{
    struct pin_use *next = &p->uses[1 - p->now];
    struct error e;
    pin_let_go(next);
    int r = model_learn(m, p->user, p->text, &e);
    if (r == 0)
        r = model_hold(m, p->user, &e);
    if (r < 0) {
        log_warn("preload %s: %s", p->text, e.text);
        return;
    }
    next->model = m;
    model_use_begin(&next->use, m, p->user, pin_ready);
}

static void pin_fetch(struct pin *p);

static void pin_fetched(struct shelf_fetch *f, struct model *m, const struct error *e)
{
    struct pin *p = container_of(f, struct pin, fetch);
    p->fetching = false;
    if (p->unwanted) {
        free(p);
        return;
    }
    if (e)
        log_warn("preload %s: %s", p->text, e->text);
    else if (m != p->uses[p->now].model)
        pin_take(p, m);
    if (p->again)
        pin_fetch(p);
}

// The server stops; the pins are closed already.
static void pin_stopped(struct shelf_fetch *f)
{
    if (!f->work.on_thread)
        free(container_of(f, struct pin, fetch));
}

static void pin_fetch(struct pin *p)
{
    size_t n = strcspn(p->text, "@");
    p->again = p->fetching;
    if (p->fetching)
        return;
    p->fetching = true;
    p->fetch.uploads = p->all->uploads;
    p->fetch.fetched = pin_fetched;
    p->fetch.stopped = pin_stopped;
    snprintf(p->fetch.name, sizeof p->fetch.name, "%.*s", (int)n, p->text);
    snprintf(p->fetch.version, sizeof p->fetch.version, "%s", p->text[n] ? p->text + n + 1 : "");
    shelf_fetch(p->all->shelf, &p->fetch, NULL);
}

// ---- all of them --------------------------------------------------------------------------------

static struct pin *find_pin(struct shelf_pins *all, const char *text)
{
    struct pin *p;
    list_for_each (p, &all->all, link)
        if (strcmp(p->text, text) == 0)
            return p;
    return NULL;
}

static bool is_wanted(const struct options *o, const char *text)
{
    for (uint32_t i = 0; i < o->n_preload; i++)
        if (strcmp(o->preload[i], text) == 0)
            return true;
    return false;
}

// The service's own user pays: an operator, for whom there is room.
static struct pin *pin_new(struct shelf_pins *all, const char *text)
{
    struct error e;
    struct pin *p = calloc(1, sizeof *p);
    const struct origin self = {.local = true, .uid = geteuid()};
    if (!p || user_get(all->users, &self, NULL, &p->user, &e) < 0) {
        log_warn("preload %s: there is no memory", text);
        free(p);
        return NULL;
    }
    p->all = all;
    p->uses[0].pin = p->uses[1].pin = p;
    snprintf(p->text, sizeof p->text, "%s", text);
    list_append(&all->all, &p->link);
    return p;
}

void shelf_pins_update(struct shelf_pins *all)
{
    const struct options *o = all->options;
    struct pin *p, *after;
    struct error e;
    if (all->closed)
        return;
    list_for_each_safe (p, after, &all->all, link)
        if (!is_wanted(o, p->text))
            pin_end(p);
    if (o->n_preload > 0 && shelf_check(all->shelf, &e) < 0) {
        log_warn("preload: %s", e.text);
        return;
    }
    for (uint32_t i = 0; i < o->n_preload; i++) {
        p = find_pin(all, o->preload[i]);
        if (!p)
            p = pin_new(all, o->preload[i]);
        if (p)
            pin_fetch(p);
    }
}

void shelf_pins_close(struct shelf_pins *all)
{
    struct pin *p;
    all->closed = true;
    while ((p = list_first(&all->all, struct pin, link)))
        pin_end(p);
}

unsigned shelf_pins_count(const struct shelf_pins *all)
{
    const struct pin *p;
    unsigned n = 0;
    list_for_each (p, &all->all, link) {
        const struct model *m = p->uses[p->now].model;
        n += m && m->state == MODEL_LOADED;
    }
    return n;
}
