// Series are never removed, since Prometheus expects counters to go on; so their number is bounded,
// in all and for each user. What finds no room is counted under "other", so that sums over all
// series stay right.
#include "server/metrics/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOUND(us) us,
const uint64_t metrics_bounds[] = {METRICS_BUCKETS(BOUND)};
#undef BOUND

static const char other[] = "other";

static bool is_like(const struct metrics_series *s, const struct metrics_series *like)
{
    return s->priority == like->priority && strcmp(s->sha256, like->sha256) == 0 &&
           strcmp(s->user, like->user) == 0 && strcmp(s->model, like->model) == 0;
}

static struct metrics_series *series_find(const struct metrics *m,
                                          const struct metrics_series *like)
{
    for (unsigned i = 0; i < m->n_series; i++)
        if (is_like(m->series[i], like))
            return m->series[i];
    return NULL;
}

static unsigned count_of(const struct metrics *m, const char *user)
{
    unsigned n = 0;
    for (unsigned i = 0; i < m->n_series; i++)
        n += strcmp(m->series[i]->user, user) == 0;
    return n;
}

// Nobody's models take the place of everyone else's.
static bool has_room(const struct metrics *m, const char *user)
{
    return m->n_series < METRICS_MAX_SERIES && count_of(m, user) < METRICS_MAX_SERIES / 4;
}

// Of a user who has a series there is room for his "other" one, too.
static struct metrics_series *series_add(struct metrics *m, const struct metrics_series *like)
{
    struct metrics_series *s = calloc(1, sizeof *s);
    if (s) {
        memcpy(s->model, like->model, sizeof s->model);
        memcpy(s->sha256, like->sha256, sizeof s->sha256);
        memcpy(s->user, like->user, sizeof s->user);
        s->priority = like->priority;
        m->series[m->n_series++] = s;
    }
    return s;
}

static struct metrics_series *series_get(struct metrics *m, const struct metrics_series *like)
{
    struct metrics_series *s = series_find(m, like);
    if (s || has_room(m, like->user))
        return s ? s : series_add(m, like);
    bool known = count_of(m, like->user) > 0;
    struct metrics_series any = {.priority = METRICS_ANY_PRIORITY};
    memcpy(any.model, other, sizeof other);
    snprintf(any.user, sizeof any.user, "%s", known ? like->user : other);
    s = series_find(m, &any);
    return s ? s : series_add(m, &any);
}

struct metrics_series *metrics_find(struct metrics *m, const char *model, const uint8_t *sha256,
                                    const char *user, uint32_t priority)
{
    struct metrics_series like = {.priority = priority};
    snprintf(like.model, sizeof like.model, "%s", model);
    snprintf(like.user, sizeof like.user, "%s", user);
    for (size_t i = 0; i < sizeof like.sha256 / 2; i++)
        snprintf(like.sha256 + 2 * i, 3, "%02x", sha256[i]);
    return series_get(m, &like);
}

struct metrics_series *metrics_find_like(struct metrics *m, const struct metrics_series *like,
                                         unsigned i)
{
    return i < m->n_series && is_like(m->series[i], like) ? m->series[i] : series_get(m, like);
}

void metrics_observe(struct metrics_histogram *h, uint64_t us)
{
    unsigned i = 0;
    while (i < METRICS_N_BUCKETS && us > metrics_bounds[i])
        i++;
    if (i < METRICS_N_BUCKETS)
        h->in[i]++;
    h->n++;
    h->sum_us += us;
}

void metrics_count_error(struct metrics *m, int code)
{
    if (code < 0 && code > -METRICS_CODES)
        m->errors[-code]++;
}

void metrics_done(struct metrics *m)
{
    while (m->n_series > 0)
        free(m->series[--m->n_series]);
}
