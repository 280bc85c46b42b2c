// Which of the runtime's contexts runs what. The pool starts with one lane and grows when a run had
// to wait:
//
//      lanes_take():  idle lane with the right cores -> any idle lane -> wait
//      after a wait:  one more lane, up to `limit`
//      lanes_give():  wakes those who wait
//
// `lock` guards everything but the insides of a busy lane, which belong to the thread that took it.
// A set with a `source` takes the source's lock while it holds its own, never the other way round.
#include "npu/rknnrt/lanes/lanes.h"

#include "base/log.h"

void lanes_init(struct lanes *l, const struct runtime *r, struct bytes file, uint32_t flags,
                uint32_t limit, const struct npu_model_info *info)
{
    *l = (struct lanes){.runtime = r,
                        .info = info,
                        .file = file,
                        .flags = flags,
                        .limit = limit < LANES_MAX ? limit : LANES_MAX,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .idle = PTHREAD_COND_INITIALIZER};
}

void lanes_init_memory(struct lanes *l, struct lanes *source)
{
    lanes_init(l, source->runtime, source->file, source->flags, source->limit, source->info);
    l->source = source;
}

void lanes_done(struct lanes *l)
{
    while (l->n > 0)
        lane_done(&l->list[--l->n]);
}

// Duplicates share the weights of `like`, which must not be running. Models with dynamic shapes
// cannot be duplicated (SDK guide 5.4.5), and old runtimes duplicate none: they load the file
// again.
static int open_lane(struct lanes *l, const struct lane *like, struct error *e)
{
    struct lane *lane = &l->list[l->n];
    bool dup = like && l->runtime->dup_context && l->info->n_shape_sets <= 1;
    int s =
        dup ? lane_dup(lane, like, e) : lane_init(lane, l->runtime, l->file, l->flags, l->info, e);
    if (s == 0 && l->source)
        lane->memory = true;
    l->n += s == 0;
    return s;
}

// The first lane of a set with a source is a duplicate of one of the source's, which is borrowed
// meanwhile.
static int open_first(struct lanes *l, struct error *e)
{
    struct lane *like = NULL;
    int s = l->source ? lanes_take(l->source, 0, &like, e) : 0;
    if (s == 0)
        s = open_lane(l, like, e);
    if (like)
        lanes_give(l->source, like);
    return s;
}

// An idle lane, preferably one whose core mask is `cores` already: setting it costs a call.
static struct lane *find_idle(struct lanes *l, uint32_t cores)
{
    struct lane *found = NULL;
    for (uint32_t i = 0; i < l->n; i++)
        if (!l->busy[i] && (!found || l->list[i].core_mask == cores))
            found = &l->list[i];
    return found;
}

// Opens one more lane; `idle` is not in use, and so can be duplicated. If that fails (memory, as a
// rule), runs share what there is from now on.
static void grow(struct lanes *l, const struct lane *idle)
{
    struct error e;
    if (l->n >= l->limit || open_lane(l, idle, &e) == 0)
        return;
    log_warn("runs of this model share %u of the runtime's contexts: %s", l->n, e.text);
    l->limit = l->n;
}

// Blocks under `lock` while a lane is opened: others would have to wait for it anyway.
int lanes_take(struct lanes *l, uint32_t cores, struct lane **ret, struct error *e)
{
    bool waited = false;
    struct lane *lane = NULL;
    pthread_mutex_lock(&l->lock);
    int s = l->n == 0 ? open_first(l, e) : 0;
    while (s == 0 && !(lane = find_idle(l, cores))) {
        waited = true;
        pthread_cond_wait(&l->idle, &l->lock);
    }
    if (lane && waited)
        grow(l, lane);
    if (lane)
        l->busy[lane - l->list] = true;
    pthread_mutex_unlock(&l->lock);
    *ret = lane;
    return s;
}

void lanes_give(struct lanes *l, struct lane *lane)
{
    pthread_mutex_lock(&l->lock);
    if (l->stale[lane - l->list])
        lane_forget(lane, NULL);
    l->stale[lane - l->list] = false;
    l->busy[lane - l->list] = false;
    pthread_cond_broadcast(&l->idle);
    pthread_mutex_unlock(&l->lock);
}

// Busy lanes cannot be touched: they drop all of their dma-bufs when they are given back, since by
// then it is not known whose they were to be.
void lanes_forget(struct lanes *l, const void *user)
{
    pthread_mutex_lock(&l->lock);
    for (uint32_t i = 0; i < l->n; i++)
        if (l->busy[i])
            l->stale[i] = true;
        else
            lane_forget(&l->list[i], user);
    pthread_mutex_unlock(&l->lock);
}
