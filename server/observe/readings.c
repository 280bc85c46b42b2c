// Drivers below /sys may take long to answer, or never. One thread reads all clocks and sensors;
// those who ask meanwhile wait for the same reading, one that is fresh is given at once, and when a
// driver hangs all are told so after a while, with the thread left where it is: it is asked again
// only when it has come back.
#include "server/observe/readings.h"

#include <string.h>

#include "base/log.h"
#include "base/text/text.h"
#include "server/turns.h"

void readings_init(struct readings *r, uv_loop_t *loop, const char *root)
{
    r->loop = loop;
    r->root = root;
    list_init(&r->waiters);
    list_init(&r->due);
    uv_timer_init(loop, &r->patience);
    uv_timer_init(loop, &r->telling);
}

void readings_close(struct readings *r)
{
    list_move(&r->due, &r->waiters);
    while (!list_empty(&r->due))
        list_remove(r->due.next);
    if (uv_is_closing((uv_handle_t *)&r->patience))
        return;
    uv_close((uv_handle_t *)&r->patience, NULL);
    uv_close((uv_handle_t *)&r->telling, NULL);
}

// A thousand may have asked, and each answer takes work. Waiters may ask again at once, and are not
// told twice for that.
static void readings_tell_some(struct readings *r)
{
    struct reading_waiter *w;
    for (int i = 0; i < READINGS_TURN; i++) {
        w = list_first(&r->due, struct reading_waiter, link);
        if (!w)
            return;
        list_remove(&w->link);
        w->told(w, r->hangs ? NULL : &r->now);
    }
}

// A timer of 0 ms would come in this turn.
static void on_telling(uv_timer_t *timer)
{
    struct readings *r = container_of(timer, struct readings, telling);
    turns_mark(timer->loop, "clocks and sensors");
    readings_tell_some(r);
    if (!list_empty(&r->due) && !uv_is_closing((uv_handle_t *)timer))
        uv_timer_start(timer, on_telling, 1, 0);
}

static void readings_tell(struct readings *r, bool hangs)
{
    list_move(&r->due, &r->waiters);
    r->hangs = hangs;
    on_telling(&r->telling);
}

static void on_impatient(uv_timer_t *timer)
{
    struct readings *r = container_of(timer, struct readings, patience);
    log_warn("the machine's sensors do not answer: a driver below %s hangs", r->root);
    readings_tell(r, true);
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
    readings_tell(r, false);
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
