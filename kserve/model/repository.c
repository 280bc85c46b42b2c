// Two locks: `lock` is for the list of entries, which every request looks at, and is held for
// moments; `loading` keeps loads, unloads and looks at the sources apart, and may be held as long
// as a model takes to load. Whoever has `loading` may take `lock`, never the other way round.
// Models are counted references, so one that is replaced or unloaded goes when its last request has
// ended, and no request waits for that.
#include "kserve/model/repository.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "kserve/http/reply.h"

struct entry {
    char name[128], version[CATALOG_VERSION_SIZE];
    char reason[480]; // why it is not ready
    struct served_model *model;
    uint64_t rank, stamp; // as the catalog had them last
    unsigned source;
    bool is_default;
};

struct repository {
    const struct model_source *sources;
    unsigned n_sources;
    const struct served_options *options;
    pthread_mutex_t loading; // one at a time; never inside of `lock`
    pthread_mutex_t lock;    // of what follows; held for moments
    struct entry *entries;   // sorted as a catalog
    size_t n, room;
};

struct repository *repository_new(const struct model_source *sources, unsigned n_sources,
                                  const struct served_options *options)
{
    struct repository *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->sources = sources;
    r->n_sources = n_sources;
    r->options = options;
    pthread_mutex_init(&r->loading, NULL);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void repository_free(struct repository *r)
{
    for (size_t i = 0; i < r->n; i++)
        served_model_unref(r->entries[i].model);
    free(r->entries);
    pthread_mutex_destroy(&r->loading);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

// ---- loading ------------------------------------------------------------------------------------

static bool entry_is(const struct entry *en, const char *name, const char *version)
{
    return (!name || strcmp(en->name, name) == 0) &&
           (!version || !version[0] || strcmp(en->version, version) == 0);
}

static bool entry_comes_before(const struct entry *en, const struct catalog_model *m)
{
    int order = strcmp(en->name, m->name);
    if (order == 0)
        order = (en->rank > m->rank) - (en->rank < m->rank);
    return order ? order < 0 : strcmp(en->version, m->version) < 0;
}

// Where a model stands, or is to be put. With the lock.
static int place_of(struct repository *r, const struct catalog_model *m, struct entry **ret,
                    struct error *e)
{
    size_t at = 0;
    while (at < r->n && entry_comes_before(&r->entries[at], m))
        at++;
    if (at == r->n || !entry_is(&r->entries[at], m->name, m->version)) {
        int s = array_reserve(r->entries, r->room, r->n + 1, "models", e);
        if (s < 0)
            return s;
        memmove(&r->entries[at + 1], &r->entries[at], (r->n - at) * sizeof *r->entries);
        r->n++;
        r->entries[at] = (struct entry){.reason = "it has not been loaded"};
        snprintf(r->entries[at].name, sizeof r->entries[at].name, "%s", m->name);
        snprintf(r->entries[at].version, sizeof r->entries[at].version, "%s", m->version);
    }
    *ret = &r->entries[at];
    (*ret)->rank = m->rank;
    (*ret)->source = m->source;
    (*ret)->is_default = m->is_default;
    return 0;
}

static int open_model(struct repository *r, const struct catalog_model *c,
                      struct served_model **ret, struct error *e)
{
    if (c->obstacle[0])
        return error_set(e, STATUS_MODEL_INVALID, "%s", c->obstacle);
    int s = served_model_open(c->path, c->options, r->options, ret, e);
    if (s < 0)
        return s;
    if (c->labels && (s = labels_open(&(*ret)->labels, c->labels, e)) < 0) {
        served_model_unref(*ret);
        *ret = NULL;
        return s;
    }
    snprintf((*ret)->name, sizeof(*ret)->name, "%s", c->name);
    snprintf((*ret)->version, sizeof(*ret)->version, "%s", c->version);
    (*ret)->is_onnx = c->is_onnx;
    return 0;
}

// Opens without the lock, since that may take long.
static int load_entry(struct repository *r, const struct catalog_model *c, bool open,
                      struct error *e)
{
    struct served_model *model = NULL, *old = NULL;
    struct entry *place;
    int s = open ? open_model(r, c, &model, e) : 0;
    pthread_mutex_lock(&r->lock);
    struct error own;
    if (place_of(r, c, &place, &own) == 0) {
        if (s < 0)
            snprintf(place->reason, sizeof place->reason, "%s", e->text);
        if (model) {
            old = place->model;
            place->model = model;
            place->stamp = c->stamp;
            place->reason[0] = 0;
        }
    }
    pthread_mutex_unlock(&r->lock);
    served_model_unref(old);
    if (s < 0)
        log_warn("model %s, version %s: %s", c->name, c->version, e->text);
    else if (open)
        log_info("model %s, version %s, is loaded", c->name, c->version);
    return s;
}

// What is in the catalog, or in a source that could not be asked.
static bool catalog_has(const struct catalog *c, const struct entry *en)
{
    if (c->unknown & 1U << en->source)
        return true;
    for (size_t i = 0; i < c->n; i++)
        if (entry_is(en, c->models[i].name, c->models[i].version))
            return true;
    return false;
}

// The first loaded model of the name that is not in the catalog (NULL: any) is no longer loaded.
// The caller unrefs it without the lock: that may take as long as the daemon likes.
static struct served_model *unhook_model(struct repository *r, const char *name,
                                         const struct catalog *c, const char *reason)
{
    struct served_model *taken = NULL;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n && !taken; i++) {
        struct entry *en = &r->entries[i];
        if (!en->model || !entry_is(en, name, NULL) || (c && catalog_has(c, en)))
            continue;
        taken = en->model;
        en->model = NULL;
        snprintf(en->reason, sizeof en->reason, "%s", reason);
    }
    pthread_mutex_unlock(&r->lock);
    return taken;
}

// What the source has no more goes.
static void drop_missing(struct repository *r, const char *name, const struct catalog *c)
{
    struct served_model *m;
    while ((m = unhook_model(r, name, c, "it is gone")))
        served_model_unref(m);
    pthread_mutex_lock(&r->lock);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (!entry_is(&r->entries[i], name, NULL) || catalog_has(c, &r->entries[i]))
            r->entries[n++] = r->entries[i];
    r->n = n;
    pthread_mutex_unlock(&r->lock);
}

static bool is_loaded(struct repository *r, const struct catalog_model *c)
{
    bool loaded = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++)
        if (entry_is(&r->entries[i], c->name, c->version))
            loaded = r->entries[i].model && r->entries[i].stamp == c->stamp;
    pthread_mutex_unlock(&r->lock);
    return loaded;
}

// All that the sources have, or what they have of one name. A source that fails is as it was.
static int list_sources(struct repository *r, const char *name, struct catalog *ret,
                        struct error *e)
{
    struct error own;
    int s = 0;
    for (unsigned i = 0; i < r->n_sources; i++) {
        size_t first = ret->n;
        int one = r->sources[i].list(r->sources[i].place, name, ret, s == 0 ? e : &own);
        s = s < 0 ? s : one;
        if (one < 0)
            ret->unknown |= 1U << i;
        while (one < 0 && ret->n > first)
            free(ret->models[--ret->n].options);
        for (size_t k = first; k < ret->n; k++)
            ret->models[k].source = i;
    }
    catalog_finish(ret);
    return s;
}

static int load_all(struct repository *r, const char *name, bool open, struct error *e)
{
    struct catalog c = {0};
    struct error own;
    int s = list_sources(r, name, &c, e);
    drop_missing(r, name, &c);
    if (s == 0 && name && c.n == 0)
        s = error_set(e, STATUS_PARAM_INVALID, "there is no model \"%.128s\"", name);
    for (size_t i = 0; i < c.n; i++) // all are known before the first one is opened
        load_entry(r, &c.models[i], false, &own);
    for (size_t i = 0; i < c.n && open; i++) {
        if (!name && is_loaded(r, &c.models[i]))
            continue;
        int one = load_entry(r, &c.models[i], true, &own);
        if (one < 0 && name) {
            *e = own;
            s = error_prefix(e, "version %s", c.models[i].version);
        } else if (one == STATUS_DEVICE_UNAVAILABLE && s == 0) {
            *e = own;
            s = error_prefix(e, "model %s", c.models[i].name);
        }
    }
    catalog_done(&c);
    return s;
}

int repository_load(struct repository *r, const char *name, struct error *e)
{
    pthread_mutex_lock(&r->loading);
    int s = load_all(r, name, true, e);
    pthread_mutex_unlock(&r->loading);
    return s;
}

int repository_look(struct repository *r, struct error *e)
{
    if (pthread_mutex_trylock(&r->loading) != 0)
        return 0; // who loads has just looked
    int s = load_all(r, NULL, false, e);
    pthread_mutex_unlock(&r->loading);
    return s;
}

static bool has_name(struct repository *r, const char *name)
{
    bool known = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++)
        known = known || entry_is(&r->entries[i], name, NULL);
    pthread_mutex_unlock(&r->lock);
    return known;
}

int repository_unload(struct repository *r, const char *name, struct error *e)
{
    struct served_model *m;
    pthread_mutex_lock(&r->loading);
    bool known = has_name(r, name);
    while ((m = unhook_model(r, name, NULL, "unloaded")))
        served_model_unref(m);
    pthread_mutex_unlock(&r->loading);
    return known ? 0 : error_set(e, STATUS_PARAM_INVALID, "there is no model \"%.128s\"", name);
}

// ---- asking -------------------------------------------------------------------------------------

struct served_model *repository_find(struct repository *r, const char *name, const char *version,
                                     struct error *e)
{
    struct served_model *found = NULL;
    const struct entry *known = NULL;
    bool chosen = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        if (!entry_is(&r->entries[i], name, version))
            continue;
        known = &r->entries[i];
        if (!known->model || chosen)
            continue;
        found = known->model; // the last one is the highest
        chosen = known->is_default;
    }
    if (found)
        served_model_ref(found);
    else if (known)
        error_set(e, STATUS_MODEL_INVALID, "model \"%.128s\" is not ready: %.300s", name,
                  known->reason);
    else
        error_set(e, STATUS_MODEL_INVALID, "there is no model \"%.128s\"%s%.24s", name,
                  version && version[0] ? ", version " : "", version ? version : "");
    pthread_mutex_unlock(&r->lock);
    return found;
}

void repository_index(struct repository *r, bool only_ready, struct reply *reply)
{
    const char *comma = "";
    reply_print(reply, "[");
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        const struct entry *en = &r->entries[i];
        if (only_ready && !en->model)
            continue;
        reply_print(reply, "%s{\"name\":", comma);
        reply_quote(reply, en->name);
        reply_print(reply, ",\"version\":\"%s\",\"state\":\"%s\",\"reason\":", en->version,
                    en->model ? "READY" : "UNAVAILABLE");
        reply_quote(reply, en->reason);
        reply_print(reply, "}");
        comma = ",";
    }
    pthread_mutex_unlock(&r->lock);
    reply_print(reply, "]");
}

void repository_versions(struct repository *r, const char *name, struct reply *reply)
{
    const char *comma = "";
    reply_print(reply, "[");
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        if (!entry_is(&r->entries[i], name, NULL) || !r->entries[i].model)
            continue;
        reply_print(reply, "%s\"%s\"", comma, r->entries[i].version);
        comma = ",";
    }
    pthread_mutex_unlock(&r->lock);
    reply_print(reply, "]");
}

unsigned repository_each(struct repository *r, const char *name, const char *version,
                         void (*call)(void *user, struct served_model *m), void *user)
{
    unsigned n = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        if (!r->entries[i].model || !entry_is(&r->entries[i], name, version))
            continue;
        call(user, r->entries[i].model);
        n++;
    }
    pthread_mutex_unlock(&r->lock);
    return n;
}
