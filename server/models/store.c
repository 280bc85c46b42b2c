// Model files by hash.
//
// A model is in the list from its upload to its end. Without references it is cached: it stays, at
// the end of the list, until the cache is over its limit or an upload needs the room; then the
// model at the front, which has been unused for longest, goes first. The same file with other load
// options is a variant: a model of its own with the same bytes, which is never cached, since the
// original keeps the file.
#include "server/models/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/clients/account.h"
#include "server/config/options.h"
#include "server/jobs/giveback.h"
#include "server/models/model_users.h"

static struct store *store_of(const struct model *m)
{
    return container_of(m->keeper, struct store, keeper);
}

static void free_model(struct model *m)
{
    assert(m->refs == 0 && m->state == MODEL_COLD);
    list_remove(&m->link);
    model_forget_users(m);
    give_back(store_of(m)->givebacks,
              &(struct giveback_memory){.size = m->file.size, .fd = steal_fd(&m->file.fd)}, NULL,
              0);
    model_file_done(&m->file);
    free(m);
}

// Frees a model that nobody refers to, and its bytes.
static void drop_cached(struct model *m)
{
    struct store *s = store_of(m);
    s->bytes -= m->file.size;
    s->cached_bytes -= m->file.size;
    s->n_cached--;
    free_model(m);
}

// When a model without uses is to be unloaded (uv_now()); 0 for one that is in use.
static uint64_t unload_at(const struct model *m)
{
    if (!m->runner || m->n_uses > 0)
        return 0;
    uint64_t idle = m->state == MODEL_FAILED ? 0 : store_of(m)->options->worker_idle_s;
    return m->idle_since_ms + idle * 1000;
}

// What loaded models take, as they say, and what one of a file of `more` bytes would at least.
static bool is_over_budget(const struct store *s, uint64_t more)
{
    const struct model *m;
    uint64_t sum = more;
    list_for_each (m, &s->models, link)
        sum += m->state == MODEL_LOADED ? runner_info(m->runner)->memory_size : 0;
    return sum > s->max_loaded;
}

// One that is to be unloaded at `now_ms` or before. Unloading changes the list.
static struct model *find_idle(struct store *s, uint64_t now_ms)
{
    struct model *m;
    list_for_each (m, &s->models, link) {
        uint64_t at = unload_at(m);
        if (at > 0 && at <= now_ms)
            return m;
    }
    return NULL;
}

static struct model *store_find_variant(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE],
                                        const char *options)
{
    struct model *m;
    list_for_each (m, &s->models, link)
        if (memcmp(m->sha256, sha256, MODEL_SHA256_SIZE) == 0 &&
            strcmp(m->file.options, options) == 0)
            return m;
    return NULL;
}

struct model *store_find(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE])
{
    return store_find_variant(s, sha256, "");
}

// With one reference. Takes the fd and text of the file if it succeeds.
static struct model *store_add_model(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE],
                                     const struct model_file *file, struct error *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) {
        error_no_memory(e, "a model", sizeof *m);
        return NULL;
    }
    m->keeper = &s->keeper;
    m->refs = 1;
    m->file = *file;
    memcpy(m->sha256, sha256, sizeof m->sha256);
    list_init(&m->waiting);
    list_init(&m->uses);
    list_init(&m->users);
    list_append(&s->models, &m->link);
    return m;
}

// The name is copied, and the descriptor is taken over, also on failure.
int store_add(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], int fd, uint64_t size,
              const char *name, struct model **ret, struct error *e)
{
    struct model_file file = {.fd = -1};
    int r = model_file_copy(&file, &(struct model_file){.fd = -1, .size = size, .name = name}, e);
    file.fd = fd;
    struct model *m = r < 0 ? NULL : store_add_model(s, sha256, &file, e);
    if (!m) {
        model_file_done(&file);
        return STATUS_MALLOC_FAIL;
    }
    s->bytes += size;
    *ret = m;
    return 0;
}

// The model that `original` is with other load options. It shares the file.
static int new_variant(struct model *original, const char *options, struct model **ret,
                       struct error *e)
{
    struct model_file file = original->file;
    file.options = options;
    int r = model_file_copy(&file, &file, e);
    if (r < 0)
        return r;
    struct model *m = store_add_model(store_of(original), original->sha256, &file, e);
    if (!m) {
        model_file_done(&file);
        return STATUS_MALLOC_FAIL;
    }
    m->original = model_ref(original);
    *ret = m;
    return 0;
}

int store_get(struct store *s, const uint8_t sha256[MODEL_SHA256_SIZE], const char *options,
              const struct user *user, struct model **ret, struct error *e)
{
    struct model *m = store_find_variant(s, sha256, options), *original = store_find(s, sha256);
    if (!original || !model_is_known(original, user))
        return error_set(e, STATUS_MODEL_INVALID,
                         "the server does not hold this model (any more); offer it first");
    if (!m)
        return new_variant(original, options, ret, e);
    *ret = model_ref(m);
    return 0;
}

// The list's order is that of last use, so the first one without references is the oldest.
bool store_evict(struct store *s)
{
    struct model *m;
    list_for_each (m, &s->models, link)
        if (m->refs == 0) {
            log_debug("model %s leaves the cache", m->file.name);
            drop_cached(m);
            return true;
        }
    return false;
}

// Out of the cache: the model does not count against its limit any more.
static void store_on_used(struct model *m)
{
    struct store *s = store_of(m);
    s->cached_bytes -= m->file.size;
    s->n_cached--;
}

// Into the cache; a variant is freed, and its reference to the original with it.
static void store_on_unused(struct model *m)
{
    if (m->original) {
        struct model *original = m->original;
        free_model(m);
        model_unref(original);
        return;
    }
    struct store *s = store_of(m);
    list_remove(&m->link);
    list_append(&s->models, &m->link);
    s->cached_bytes += m->file.size;
    s->n_cached++;
    store_trim(s);
}

void store_trim(struct store *s)
{
    while (s->cached_bytes > s->options->model_cache || s->n_cached > STORE_MAX_CACHED)
        store_evict(s);
}

// Sees to the unloading of idle models, from the loop.
static void store_note_idle(struct store *s);

// From the loop, never from inside of a runner's callback, because unloading frees the runner.
static void store_reap(uv_timer_t *timer)
{
    struct store *s = container_of(timer, struct store, reaper);
    struct model *m;
    while ((m = find_idle(s, uv_now(s->keeper.loop))))
        model_unload(m);
    while (is_over_budget(s, 0) && store_unload_idle(s))
        ;
    store_note_idle(s);
}

static void store_note_idle(struct store *s)
{
    uint64_t now = uv_now(s->keeper.loop), first = UINT64_MAX;
    bool over = is_over_budget(s, 0);
    struct model *m;
    list_for_each (m, &s->models, link) {
        uint64_t at = unload_at(m);
        if (at > 0 && over)
            at = now;
        if (at > 0 && at < first)
            first = at;
    }
    if (first == UINT64_MAX)
        uv_timer_stop(&s->reaper);
    else
        uv_timer_start(&s->reaper, store_reap, first > now ? first - now : 0, 0);
}

static void store_on_idle(struct model_keeper *k)
{
    store_note_idle(container_of(k, struct store, keeper));
}

bool store_unload_idle(struct store *s)
{
    struct model *m, *first = NULL;
    list_for_each (m, &s->models, link)
        if (m->runner && m->n_uses == 0 && (!first || m->idle_since_ms < first->idle_since_ms))
            first = m;
    if (first)
        model_unload(first);
    return first;
}

// Idle workers are charged to nobody, but are there.
static void store_make_room(struct model_keeper *k, const struct model *m)
{
    struct store *s = container_of(k, struct store, keeper);
    while (is_over_budget(s, m->file.size) && store_unload_idle(s))
        ;
    const struct account_amounts *total = &s->accounts->total;
    while (k->n_runners >= total->of[ACCOUNT_WORKERS] ||
           (k->n_runners + 1) * s->accounts->worker_threads > total->of[ACCOUNT_THREADS])
        if (!store_unload_idle(s))
            return;
}

// ---- life --------------------------------------------------------------------------------------

void store_init(struct store *s, const struct options *options, const struct accounts *accounts,
                const struct runner_options *runner_options,
                void (*on_held)(struct model_keeper *k, const struct model *m, bool held))
{
    *s = (struct store){.options = options,
                        .accounts = accounts,
                        .keeper = {.loop = runner_options->loop,
                                   .runner_options = runner_options,
                                   .trace = runner_options->trace,
                                   .on_used = store_on_used,
                                   .on_unused = store_on_unused,
                                   .on_idle = store_on_idle,
                                   .make_room = store_make_room,
                                   .on_held = on_held}};
    list_init(&s->models);
    uv_timer_init(runner_options->loop, &s->reaper);
}

// Jobs and contexts are gone, so all models are idle.
void store_close(struct store *s)
{
    struct model *m;
    while ((m = find_idle(s, UINT64_MAX)))
        model_unload(m);
    while ((m = list_first(&s->models, struct model, link)))
        drop_cached(m);
    uv_close((uv_handle_t *)&s->reaper, NULL);
}
