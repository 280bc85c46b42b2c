// Whatever a probe does, its process ends, and what came of it is told.
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/board/probe_process.h"

#define LONG_MS 60000

static json_t *answers(void *user)
{
    return json_pack("{s:i}", "seen", *(int *)user);
}

static json_t *answers_much(void *user)
{
    json_t *list = json_array();
    for (int i = 0; i < *(int *)user; i++)
        json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *dies(void *user)
{
    raise(*(int *)user);
    return NULL;
}

static json_t *says_nothing(void *user)
{
    (void)user;
    return NULL;
}

static json_t *hangs(void *user)
{
    (void)user;
    signal(SIGTERM, SIG_IGN);
    while (pause() < 0) // a signal that is ignored does not end it
        ;
    return NULL;
}

// What it started keeps the pipe open, and would for ever.
static json_t *leaves_a_child(void *user)
{
    if (fork() == 0)
        hangs(NULL);
    return answers(user);
}

static struct watched run(watch_function *f, int number, uint32_t limit_ms)
{
    return watch_run(f, &number, limit_ms, -1);
}

static void answers_come_back(void **state)
{
    (void)state;
    struct watched w = run(answers, 7, LONG_MS);
    assert_cmp(w.end, ==, WATCH_DONE);
    assert_cmp(json_integer_value(json_object_get(w.answer, "seen")), ==, 7);
    json_decref(w.answer);
    w = run(answers_much, 300000, LONG_MS); // more than a pipe holds
    assert_cmp(json_array_size(w.answer), ==, 300000);
    json_decref(w.answer);
}

static void deaths_are_told(void **state)
{
    (void)state;
    struct watched w = run(dies, SIGKILL, LONG_MS);
    assert_cmp(w.end, ==, WATCH_DIED);
    assert_cmp(w.signal, ==, SIGKILL);
    assert_null(w.answer);
    w = run(says_nothing, 0, LONG_MS);
    assert_cmp(w.end, ==, WATCH_DIED);
    assert_cmp(w.signal, ==, 0);
}

static void what_hangs_is_ended(void **state)
{
    (void)state;
    assert_cmp(run(hangs, 0, 50).end, ==, WATCH_LATE);
    assert_cmp(waitpid(-1, NULL, WNOHANG), ==, -1); // nothing is left
}

static void what_it_leaves_behind_is_ended(void **state)
{
    (void)state;
    struct watched w = run(leaves_a_child, 3, LONG_MS);
    assert_cmp(w.end, ==, WATCH_DONE);
    json_decref(w.answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_back),
        cmocka_unit_test(deaths_are_told),
        cmocka_unit_test(what_hangs_is_ended),
        cmocka_unit_test(what_it_leaves_behind_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
