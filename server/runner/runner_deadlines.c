// Deadlines of a runner and of what its contexts are busy with.
//
// One timer serves all of them. It is only ever moved to an earlier time: when it fires and finds
// nothing overdue, it is set to the next deadline. So a job that finishes in time costs one
// comparison.
#include "server/runner/runner.h"
#include "server/runner/runner_kind.h"
#include "server/turns.h"

#define LATE_MS 100 // a timer that fires later than that shows that the loop did not run

static void on_timer(uv_timer_t *timer);

// Makes the timer fire at `at_ms` at the latest.
static void alarm_at(struct runner *runner, uint64_t at_ms)
{
    uint64_t now = uv_now(runner->options->loop);
    if (at_ms >= runner->alarm_ms)
        return;
    runner->alarm_ms = at_ms;
    uv_timer_start(&runner->timer, on_timer, at_ms > now ? at_ms - now : 0, 0);
}

static struct runner_context *find_overdue(struct runner *runner, uint64_t now)
{
    struct runner_context *c;
    list_for_each (c, &runner->contexts, link)
        if (c->busy && !c->overdue && c->deadline_ms <= now)
            return c;
    return NULL;
}

// The client did not take a part of a dump, or did not compute a custom operator, in time.
static void end_late(struct runner_context *c)
{
    const struct runner *runner = c->runner;
    struct error e;
    if (c->waits == WAITS_WITH_PART) {
        error_set(&e, STATUS_TIMEOUT, "model %s: a part of the dump was not taken for %u ms",
                  runner->model.name, c->timeout_ms);
    } else {
        const struct custom_node *n = &runner->info.custom->nodes[c->called];
        error_set(&e, STATUS_TIMEOUT,
                  "model %s: operator %s (node %s) was not computed by its program within %u ms",
                  runner->model.name, n->op, n->name, c->timeout_ms);
    }
    runner_context_end_waiting(c, &e);
}

// A daemon that was stopped or starved of CPU time could not notice what was done in time, and its
// workers may have been stopped with it. All deadlines start afresh.
static void excuse_lateness(struct runner *runner, uint64_t now)
{
    struct runner_context *c;
    if (now < runner->alarm_ms || now - runner->alarm_ms < LATE_MS)
        return;
    list_for_each (c, &runner->contexts, link)
        if (c->deadline_ms != RUNNER_NEVER)
            c->deadline_ms = now + c->limit_ms;
    if (runner->deadline_ms != RUNNER_NEVER)
        runner->deadline_ms = now + runner->limit_ms;
}

// Overdue: the runner itself first (loading, the pause after a death), then its contexts, then the
// timer is set to the next deadline. A callback may close the timer.
static void on_timer(uv_timer_t *timer)
{
    struct runner *runner = container_of(timer, struct runner, timer);
    uint64_t now = uv_now(runner->options->loop);
    struct runner_context *c;

    turns_mark(timer->loop, "deadlines of runs");
    excuse_lateness(runner, now);
    runner->alarm_ms = RUNNER_NEVER;
    if (runner->deadline_ms <= now) {
        runner->deadline_ms = RUNNER_NEVER;
        runner->kind->overdue(runner, NULL);
    }
    while ((c = find_overdue(runner, now))) {
        if (c->waits) {
            end_late(c);
        } else {
            c->overdue = true;
            runner->kind->overdue(runner, c);
        }
    }
    if (uv_is_closing((uv_handle_t *)timer))
        return;
    list_for_each (c, &runner->contexts, link)
        if (c->busy && !c->overdue)
            alarm_at(runner, c->deadline_ms);
    alarm_at(runner, runner->deadline_ms);
}

// limit_ms is kept so that excuse_lateness() can grant the whole time again. It has no meaning for
// RUNNER_NEVER.
void runner_set_deadline(struct runner *runner, uint64_t at_ms)
{
    runner->deadline_ms = at_ms;
    runner->limit_ms = at_ms - uv_now(runner->options->loop);
    alarm_at(runner, at_ms);
}

// Starts an operation of the context and its deadline.
void runner_context_make_busy(struct runner_context *c, uint32_t timeout_ms)
{
    c->busy = true;
    c->overdue = false;
    c->limit_ms = timeout_ms;
    c->deadline_ms = uv_now(c->runner->options->loop) + timeout_ms;
    alarm_at(c->runner, c->deadline_ms);
}
