// Model files by hash.
#include "server/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/server.h"

void store_init(struct store *s, struct server *server)
{
    *s = (struct store){.server = server};
    list_init(&s->models);
    uv_timer_init(server->loop, &s->reaper);
}

static void free_model(struct model *m)
{
    assert(m->refs == 0 && m->state == MODEL_COLD);
    m->store->bytes -= m->size;
    m->store->cached_bytes -= m->size;
    m->store->n_cached--;
    list_remove(&m->link);
    fd_close(m->fd);
    free(m);
}

void store_close(struct store *s)
{
    struct model *m, *after;
    list_for_each_safe (m, after, &s->models, link) {
        if (m->host) {
            store_ref(m);
            model_unload(m);
            store_unref(m);
        }
    }
    while ((m = list_first(&s->models, struct model, link)))
        free_model(m);
    uv_close((uv_handle_t *)&s->reaper, NULL);
}

struct model *store_find(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE])
{
    struct model *m;
    list_for_each (m, &s->models, link)
        if (memcmp(m->sha256, sha256, MODEL_SHA256_SIZE) == 0)
            return m;
    return NULL;
}

int store_add(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], int fd, uint64_t size,
              const char *name, struct model **ret, struct error *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) {
        fd_close(fd);
        return error_no_memory(e, "a model", sizeof *m);
    }
    m->store = s;
    m->refs = 1;
    m->fd = fd;
    m->size = size;
    memcpy(m->sha256, sha256, sizeof m->sha256);
    message_set_text(m->name, name);
    list_init(&m->waiting);
    list_append(&s->models, &m->link);
    s->bytes += size;
    *ret = m;
    return 0;
}

struct model *store_ref(struct model *m)
{
    if (m->refs++ == 0) {
        m->store->cached_bytes -= m->size;
        m->store->n_cached--;
    }
    return m;
}

// Frees the model that has been unused for longest. False if all are in use.
static bool evict(struct store *s)
{
    struct model *m;
    list_for_each (m, &s->models, link)
        if (m->refs == 0) {
            log_debug("model %s leaves the cache", m->name);
            free_model(m);
            return true;
        }
    return false;
}

void store_unref(struct model *m)
{
    if (!m || --m->refs > 0)
        return;
    struct store *s = m->store;
    list_remove(&m->link);
    list_append(&s->models, &m->link);
    s->cached_bytes += m->size;
    s->n_cached++;
    while (s->cached_bytes > s->server->options->model_cache || s->n_cached > STORE_MAX_CACHED)
        evict(s);
}

bool store_make_room(struct store *s, uint64_t room)
{
    uint64_t limit = server_max_models_size(s->server);
    while (room > limit || s->bytes + s->server->uploads.bytes > limit - room)
        if (!evict(s) && !uploads_drop_orphan(&s->server->uploads))
            return false;
    return true;
}

// When a model without uses is to be unloaded (uv_now()); 0 for one that is in use.
static uint64_t unload_at(const struct model *m)
{
    if (!m->host || m->n_uses > 0)
        return 0;
    uint64_t idle = m->state == MODEL_FAILED ? 0 : m->store->server->options->worker_idle_s;
    return m->idle_since_ms + idle * 1000;
}

static void reap(uv_timer_t *timer)
{
    struct store *s = container_of(timer, struct store, reaper);
    uint64_t now = uv_now(s->server->loop);
    struct model *m, *after;
    list_for_each_safe (m, after, &s->models, link) {
        uint64_t at = unload_at(m);
        if (at > 0 && at <= now)
            model_unload(m);
    }
    store_note_idle(s);
}

void store_note_idle(struct store *s)
{
    uint64_t now = uv_now(s->server->loop), first = UINT64_MAX;
    struct model *m;
    list_for_each (m, &s->models, link) {
        uint64_t at = unload_at(m);
        if (at > 0 && at < first)
            first = at;
    }
    if (first == UINT64_MAX)
        uv_timer_stop(&s->reaper);
    else
        uv_timer_start(&s->reaper, reap, first > now ? first - now : 0, 0);
}
