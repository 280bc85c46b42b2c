// Deadlines of jobs: thousands that are over at the same time are told of in several turns of the
// loop, each once, and none of them keeps the loop in one turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/jobs/job_timer.h"

#define MANY 1000

struct one {
    struct job_deadline deadline;
    unsigned expired;
};

static uv_loop_t loop;
static struct job_timer timer;
static struct one ones[MANY];
static unsigned n_expired, n_woken, most_in_turn, in_turn;

// What ends with another is gone from the timer. Each of them asks for a look at what waits.
static void on_expired(struct job_deadline *d)
{
    struct one *o = container_of(d, struct one, deadline);
    o->expired++;
    n_expired++;
    in_turn++;
    job_timer_wake(&timer);
    if (o == &ones[0])
        list_remove(&ones[MANY - 1].deadline.link);
}

static void on_woken(struct job_timer *t)
{
    n_woken++;
    job_timer_wake(t);
    if (n_expired == MANY - 1)
        uv_timer_stop(&t->timer);
}

static void on_turn(uv_check_t *check)
{
    (void)check;
    most_in_turn = in_turn > most_in_turn ? in_turn : most_in_turn;
    in_turn = 0;
}

static void many_are_told_in_several_turns(void **state)
{
    uv_check_t check;
    (void)state;
    uv_loop_init(&loop);
    uv_check_init(&loop, &check);
    uv_check_start(&check, on_turn);
    uv_unref((uv_handle_t *)&check);
    job_timer_init(&timer, &loop, on_expired, on_woken);
    for (int i = 0; i < MANY; i++) {
        list_init(&ones[i].deadline.link);
        job_timer_set(&timer, &ones[i].deadline, 1);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    on_turn(&check);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(ones[i].expired, i < MANY - 1);
    assert_in_range(most_in_turn, 1, MANY / 4);
    assert_true(list_empty(&timer.deadlines));
    uv_close((uv_handle_t *)&timer.timer, NULL);
    uv_close((uv_handle_t *)&check, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_are_told_in_several_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
