// Who asks waits, until all who wait are served by one text:
//
//   metrics_share_get() --> waiting   until the sensors are read
//   share_begin()       --> served
//   share_make_some()                 slices of the text
//   share_tell_some()                 slices of the answers
#include "server/metrics/metrics_share.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "server/handle/services.h"
#include "server/net/delimited.h"
#include "server/turns.h"

#define SHARE_PAUSE      4             // times as long as the last text took, until the next
#define SHARE_TURN_BYTES (512u * 1024) // of answers, in a turn of the loop

struct metrics_copy *metrics_copy_ref(struct metrics_copy *copy)
{
    copy->refs++;
    return copy;
}

void metrics_copy_unref(void *owner)
{
    struct metrics_copy *copy = owner;
    if (!copy || --copy->refs > 0)
        return;
    free(copy->text);
    free(copy);
}

// Out of the list first: who is told may ask again, for the next text.
static void share_tell(struct metrics_asker *a, struct metrics_copy *copy, const struct error *e)
{
    list_remove(&a->link);
    a->told(a, copy, e);
}

// There is no text for those who have waited for this one; who comes now has the next one begun.
static void share_fail(struct metrics_share *m, const struct error *e)
{
    struct metrics_asker *a;
    while ((a = list_first(&m->served, struct metrics_asker, link)))
        share_tell(a, NULL, e);
}

// Of a text that is whole.
static int copy_new(struct metrics_share *m, struct error *e)
{
    struct metrics_copy *copy = calloc(1, sizeof *copy);
    char *text;
    size_t size;
    int r = metrics_text_end(&m->text, &text, &size, e);
    if (r < 0) {
        free(copy);
        return r;
    }
    if (!copy) {
        free(text);
        return error_no_memory(e, "metrics", sizeof *copy);
    }
    *copy = (struct metrics_copy){.refs = 1, .text = text, .size = size};
    m->copy = copy;
    return 0;
}

// The next slice, and behind the last one the whole.
static void share_make_some(struct metrics_share *m)
{
    struct error e;
    uint64_t began_ns = turns_cpu_ns();
    if (!metrics_text_more(&m->text)) {
        m->making = false;
        if (copy_new(m, &e) < 0)
            share_fail(m, &e);
    }
    m->took_us += (turns_cpu_ns() - began_ns) / 1000;
    m->next_us = uv_hrtime() / 1000 + SHARE_PAUSE * m->took_us;
}

// A text of two megabytes goes to one of them in a turn, a short one to some hundred.
static void share_tell_some(struct metrics_share *m)
{
    struct metrics_asker *a;
    for (size_t sent = 0; sent < SHARE_TURN_BYTES; sent += m->copy->size)
        if ((a = list_first(&m->served, struct metrics_asker, link)))
            share_tell(a, m->copy, NULL);
        else
            break;
}

static void share_schedule(struct metrics_share *m);

// A reading_waiter's told(): whoever has asked by now has this text.
static void share_begin(struct reading_waiter *w, const struct reading *now)
{
    struct metrics_share *m = container_of(w, struct metrics_share, reading);
    struct error e;
    turns_mark(m->timer.loop, "metrics");
    uint64_t began_ns = turns_cpu_ns();
    m->asked = false;
    list_move(&m->served, &m->waiting);
    int r = metrics_text_begin(&m->text, m->services, now, &e);
    m->making = r == 0;
    m->took_us = (turns_cpu_ns() - began_ns) / 1000;
    if (r < 0)
        share_fail(m, &e);
    share_schedule(m);
}

// Nobody may wait any more for what is made.
static void share_forget(struct metrics_share *m)
{
    if (!list_empty(&m->served))
        return;
    metrics_copy_unref(steal_ptr(m->copy));
}

// One turn: a slice of the text, or of the answers.
static void on_turn(uv_timer_t *timer)
{
    struct metrics_share *m = container_of(timer, struct metrics_share, timer);
    turns_mark(timer->loop, "metrics");
    if (m->making)
        share_make_some(m);
    else if (m->copy)
        share_tell_some(m);
    else if (!list_empty(&m->waiting) && !m->asked) {
        m->asked = true;
        readings_get(m->services->readings, &m->reading);
    }
    share_forget(m);
    share_schedule(m);
}

// In the next turn while there is something to do (a timer of 0 ms would come in this one); else
// when the next text may be begun.
static void share_schedule(struct metrics_share *m)
{
    uint64_t now_us = uv_hrtime() / 1000;
    if (uv_is_active((uv_handle_t *)&m->timer) || uv_is_closing((uv_handle_t *)&m->timer))
        return;
    if (m->making || m->copy)
        uv_timer_start(&m->timer, on_turn, 1, 0);
    else if (!m->asked && !list_empty(&m->waiting))
        uv_timer_start(&m->timer, on_turn,
                       m->next_us > now_us ? (m->next_us - now_us) / 1000 + 1 : 0, 0);
}

void metrics_share_get(struct metrics_share *m, struct metrics_asker *a)
{
    list_append(&m->waiting, &a->link);
    share_schedule(m);
}

void metrics_share_init(struct metrics_share *m, const struct services *services)
{
    m->services = services;
    m->reading.told = share_begin;
    list_init(&m->reading.link);
    list_init(&m->waiting);
    list_init(&m->served);
    uv_timer_init(services->loop, &m->timer);
}

// One that is being made is given up; a copy that is on its way to somebody stays with his frame.
void metrics_share_close(struct metrics_share *m)
{
    char *text;
    size_t size;
    struct error e;
    if (uv_is_closing((uv_handle_t *)&m->timer))
        return;
    if (m->making && metrics_text_end(&m->text, &text, &size, &e) == 0)
        free(text);
    m->making = false;
    metrics_copy_unref(steal_ptr(m->copy));
    list_remove(&m->reading.link);
    uv_close((uv_handle_t *)&m->timer, NULL);
}
