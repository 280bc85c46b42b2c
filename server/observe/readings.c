#include "server/observe/readings.h"

#include <string.h>

#include "base/log.h"
#include "base/text/text.h"

void readings_init(struct readings *r, uv_loop_t *loop, const char *root)
{
    r->loop = loop;
    r->root = root;
    list_init(&r->waiters);
    uv_timer_init(loop, &r->patience);
}

void readings_close(struct readings *r)
{
    while (!list_empty(&r->waiters))
        list_remove(r->waiters.next);
    if (!uv_is_closing((uv_handle_t *)&r->patience))
        uv_close((uv_handle_t *)&r->patience, NULL);
}

// Waiters may ask again at once, and are not told twice for that.
static void readings_tell(struct readings *r, const struct reading *now)
{
    struct list all;
    struct reading_waiter *w;
    list_init(&all);
    list_move(&all, &r->waiters);
    while ((w = list_first(&all, struct reading_waiter, link))) {
        list_remove(&w->link);
        w->told(w, now);
    }
}

static void on_impatient(uv_timer_t *timer)
{
    struct readings *r = container_of(timer, struct readings, patience);
    log_warn("the machine's sensors do not answer: a driver below %s hangs", r->root);
    readings_tell(r, NULL);
}

// On a thread. What drivers and devices are called comes from firmware and modules.
static void readings_read(uv_work_t *work)
{
    struct readings *r = container_of(work, struct readings, work);
    struct reading *n = &r->next;
    n->n_clocks = clocks_read(r->root, n->clocks);
    n->n_sensors = sensors_read(r->root, n->sensors);
    for (size_t i = 0; i < n->n_clocks; i++) {
        text_make_printable(n->clocks[i].name);
        text_make_printable(n->clocks[i].governor);
    }
}

static void on_readings_read(uv_work_t *work, int status)
{
    struct readings *r = container_of(work, struct readings, work);
    (void)status;
    r->reading = false;
    if (uv_is_closing((uv_handle_t *)&r->patience))
        return;
    uv_timer_stop(&r->patience);
    r->now = r->next;
    r->known = true;
    r->now_ms = uv_now(r->loop);
    readings_tell(r, &r->now);
}

void readings_get(struct readings *r, struct reading_waiter *w)
{
    list_init(&w->link);
    if (r->known && !r->reading && uv_now(r->loop) - r->now_ms < READINGS_FRESH_MS) {
        w->told(w, &r->now);
        return;
    }
    list_append(&r->waiters, &w->link);
    if (!uv_is_active((uv_handle_t *)&r->patience))
        uv_timer_start(&r->patience, on_impatient, READINGS_PATIENCE_MS, 0);
    if (r->reading)
        return;
    r->reading = true;
    uv_queue_work(r->loop, &r->work, readings_read, on_readings_read);
}
