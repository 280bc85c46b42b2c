// Deadlines of jobs: one libuv timer for all of them, and for waking the scheduler from the loop.
//
// The timer is only ever moved to an earlier time; when it fires it looks at all deadlines, which
// are few (jobs with a limit of their own), and is set to the next one.
#include "server/jobs/job_timer.h"

#include "server/turns.h"

#define NEVER          UINT64_MAX
#define EXPIRE_AT_ONCE 32 // each costs an answer, 15 us

static void on_timer(uv_timer_t *timer);

// Makes the timer fire at `at_ms` at the latest; 0: as soon as the loop comes round. What is set to
// now while timers have their turn would come in the same turn.
static void alarm_at(struct job_timer *t, uint64_t at_ms)
{
    uint64_t now = uv_now(t->timer.loop);
    if (t->fires && at_ms <= now)
        at_ms = now + 1;
    if (at_ms >= t->alarm_ms || uv_is_closing((uv_handle_t *)&t->timer))
        return;
    t->alarm_ms = at_ms;
    uv_timer_start(&t->timer, on_timer, at_ms > now ? at_ms - now : 0, 0);
}

// expired() may take any of them out of its list, this one too. Searching from the start after each
// would take the square of how many there are.
static void expire_overdue(struct job_timer *t)
{
    struct list overdue;
    struct job_deadline *d, *after;
    unsigned n = 0;
    list_init(&overdue);
    list_for_each_safe (d, after, &t->deadlines, link) {
        if (d->at_ms > uv_now(t->timer.loop))
            continue;
        list_remove(&d->link);
        list_append(&overdue, &d->link);
        if (++n == EXPIRE_AT_ONCE)
            break;
    }
    while ((d = list_first(&overdue, struct job_deadline, link))) {
        list_remove(&d->link);
        t->expired(d);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct job_timer *t = container_of(timer, struct job_timer, timer);
    struct job_deadline *d;
    turns_mark(timer->loop, "jobs at their deadlines");
    t->alarm_ms = NEVER;
    t->fires = true;
    expire_overdue(t);
    t->woken(t);
    list_for_each (d, &t->deadlines, link)
        alarm_at(t, d->at_ms);
    t->fires = false;
}

void job_timer_init(struct job_timer *t, uv_loop_t *loop, void (*expired)(struct job_deadline *d),
                    void (*woken)(struct job_timer *t))
{
    t->expired = expired;
    t->woken = woken;
    uv_timer_init(loop, &t->timer);
    list_init(&t->deadlines);
    t->alarm_ms = NEVER;
    t->fires = false;
}

void job_timer_set(struct job_timer *t, struct job_deadline *d, uint32_t limit_ms)
{
    d->at_ms = uv_now(t->timer.loop) + limit_ms;
    list_append(&t->deadlines, &d->link);
    alarm_at(t, d->at_ms);
}

void job_timer_hurry(struct job_timer *t, uint32_t limit_ms)
{
    uint64_t at_ms = uv_now(t->timer.loop) + limit_ms;
    struct job_deadline *d;
    list_for_each (d, &t->deadlines, link) {
        d->at_ms = d->at_ms < at_ms ? d->at_ms : at_ms;
        alarm_at(t, d->at_ms);
    }
}

void job_timer_wake(struct job_timer *t)
{
    alarm_at(t, 0);
}
