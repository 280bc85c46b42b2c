// Deadlines of jobs.
#include "server/jobs/job_timer.h"

#include "server/jobs/job.h"
#include "server/server.h"

#define NEVER UINT64_MAX

static void on_timer(uv_timer_t *timer);

static void alarm_at(struct job_timer *t, uint64_t at_ms)
{
    uint64_t now = uv_now(t->timer.loop);
    if (at_ms >= t->alarm_ms || uv_is_closing((uv_handle_t *)&t->timer))
        return;
    t->alarm_ms = at_ms;
    uv_timer_start(&t->timer, on_timer, at_ms > now ? at_ms - now : 0, 0);
}

static struct job *find_overdue(struct job_timer *t)
{
    struct job *j;
    list_for_each (j, &t->deadlines, timed)
        if (j->deadline_ms <= uv_now(t->timer.loop))
            return j;
    return NULL;
}

static void on_timer(uv_timer_t *timer)
{
    struct job_timer *t = container_of(timer, struct job_timer, timer);
    struct job *j;
    t->alarm_ms = NEVER;
    while ((j = find_overdue(t))) {
        list_remove(&j->timed);
        job_expire(j);
    }
    jobs_schedule(container_of(t, struct server, job_timer));
    list_for_each (j, &t->deadlines, timed)
        alarm_at(t, j->deadline_ms);
}

void job_timer_init(struct job_timer *t, uv_loop_t *loop)
{
    uv_timer_init(loop, &t->timer);
    list_init(&t->deadlines);
    t->alarm_ms = NEVER;
}

void job_timer_set(struct job_timer *t, struct job *j)
{
    j->deadline_ms = uv_now(t->timer.loop) + j->limit_ms;
    list_append(&t->deadlines, &j->timed);
    alarm_at(t, j->deadline_ms);
}

void job_timer_schedule(struct job_timer *t)
{
    alarm_at(t, 0);
}
