// However many scrape at once, the text is made once: all who ask while it is being made get the
// same one (snapshots.h), in slices between which the loop serves others.
#include "server/metrics/metrics_share.h"

#include "base/cleanup.h"
#include "server/handle/services.h"

static struct metrics_share *share_of(struct snapshots *all)
{
    return container_of(all, struct metrics_share, all);
}

static void share_prepare(struct snapshots *all)
{
    struct metrics_share *m = share_of(all);
    readings_get(m->services->readings, &m->reading);
}

// A reading_waiter's told().
static void on_reading(struct reading_waiter *w, const struct reading *now)
{
    struct metrics_share *m = container_of(w, struct metrics_share, reading);
    m->sensors = now;
    snapshots_begin(&m->all);
}

static int share_begin(struct snapshots *all, struct error *e)
{
    struct metrics_share *m = share_of(all);
    return metrics_text_begin(&m->text, m->services, m->sensors, e);
}

static int share_more(struct snapshots *all, struct error *e)
{
    (void)e;
    return metrics_text_more(&share_of(all)->text);
}

static int share_end(struct snapshots *all, void **data, size_t *size, struct error *e)
{
    char *text;
    int r = metrics_text_end(&share_of(all)->text, &text, size, e);
    if (r == 0)
        *data = text;
    return r;
}

static void share_answer(struct snapshots *all, struct request *r, struct snapshot *n)
{
    (void)all;
    snapshot_answer(n, r, rknnd_Empty_fields, &(rknnd_Empty){0});
}

void metrics_share_init(struct metrics_share *m, const struct services *services)
{
    static const struct snapshots_ops ops = {.part = "metrics",
                                             .prepare = share_prepare,
                                             .begin = share_begin,
                                             .more = share_more,
                                             .end = share_end,
                                             .answer = share_answer};
    m->services = services;
    m->reading.told = on_reading;
    list_init(&m->reading.link);
    snapshots_init(&m->all, &ops, services->loop);
}

void metrics_share_close(struct metrics_share *m)
{
    list_remove(&m->reading.link);
    snapshots_close(&m->all);
}
