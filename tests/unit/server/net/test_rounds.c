// Turns that lines have: one of each line's in a round, what is too much for a turn of the loop in
// the next, and nobody who has left.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/rounds.h"

#define ALL       8
#define ROUNDS_MS 2

struct one {
    struct rounds_place place;
    char name;
    unsigned again; // times that it waits again in its turn
    uint64_t busy_ns;
    struct one *leaves; // in its turn
};

static uv_loop_t loop;
static struct rounds rounds;
static struct rounds_line lines[2];
static struct one ones[ALL];
static char order[ROUNDS_CROWD + 64]; // names, as they had their turns

static struct rounds_line *line_of(const struct one *o)
{
    return &lines[o->name >= 'a'];
}

static void on_turn(struct rounds_place *place)
{
    struct one *o = container_of(place, struct one, place);
    order[strlen(order)] = o->name;
    if (o->leaves)
        rounds_leave(&o->leaves->place);
    if (o->again > 0) {
        o->again--;
        rounds_wait(&rounds, line_of(o), &o->place);
    }
    for (uint64_t begin = uv_hrtime(); uv_hrtime() - begin < o->busy_ns;)
        continue;
}

static struct one *wait_as(char name)
{
    struct one *o = &ones[name >= 'a' ? name - 'a' + ALL / 2 : name - 'A'];
    o->name = name;
    rounds_wait(&rounds, line_of(o), &o->place);
    return o;
}

static int start_with(unsigned most_ms)
{
    memset(ones, 0, sizeof ones);
    memset(order, 0, sizeof order);
    uv_loop_init(&loop);
    rounds_init(&rounds, &loop, most_ms);
    rounds_line_init(&lines[0]);
    rounds_line_init(&lines[1]);
    for (unsigned i = 0; i < ALL; i++)
        rounds_place_init(&ones[i].place, on_turn);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with(ROUNDS_MS);
}

static int start_one_by_one(void **state)
{
    (void)state;
    return start_with(0);
}

static int stop(void **state)
{
    (void)state;
    rounds_close(&rounds);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

// "A" to "D" wait in one line, "a" to "d" in the other. The loop ends by itself once all had turns.
static void lines_take_turns(void **state)
{
    (void)state;
    wait_as('A');
    wait_as('B');
    wait_as('C');
    wait_as('B'); // waits already
    wait_as('a');
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "AaBC");
}

static void who_comes_again_is_behind(void **state)
{
    (void)state;
    wait_as('A')->again = 2;
    wait_as('B');
    wait_as('a')->again = 1;
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "AaBaAA");
}

// Each takes longer than a turn of the loop may.
static void long_work_leaves_the_rest_for_the_next_turn(void **state)
{
    (void)state;
    wait_as('A')->busy_ns = (ROUNDS_MS + 1) * UINT64_C(1000000);
    wait_as('B')->busy_ns = (ROUNDS_MS + 1) * UINT64_C(1000000);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "A");
    wait_as('a'); // has come meanwhile, and its line has had nothing
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "ABa");
}

static void one_has_its_turn_in_each_turn_of_the_loop(void **state)
{
    (void)state;
    wait_as('A');
    wait_as('B');
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "A");
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "AB");
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void who_leaves_has_no_turn(void **state)
{
    (void)state;
    wait_as('B');
    wait_as('A')->leaves = &ones[2];
    ones[2].name = 'C';
    wait_as('C');
    rounds_leave(&ones[1].place);
    assert_true(rounds_waits(&ones[0].place));
    assert_false(rounds_waits(&ones[1].place));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "A");
}

// Who is taken out, or had a turn, does not count.
static void a_crowd_is_known(void **state)
{
    static struct one many[ROUNDS_CROWD + 1];
    (void)state;
    for (unsigned i = 0; i <= ROUNDS_CROWD; i++) {
        assert_false(rounds_are_crowded(&rounds));
        many[i].name = 'z';
        rounds_place_init(&many[i].place, on_turn);
        rounds_wait(&rounds, &lines[1], &many[i].place);
        rounds_wait(&rounds, &lines[1], &many[i].place);
    }
    assert_true(rounds_are_crowded(&rounds));
    rounds_leave(&many[7].place);
    rounds_leave(&many[7].place);
    assert_false(rounds_are_crowded(&rounds));
    rounds_wait(&rounds, &lines[0], &many[7].place);
    assert_true(rounds_are_crowded(&rounds));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(strlen(order), ROUNDS_CROWD + 1);
    assert_int_equal(rounds.n_waiting, 0);
}

// The line goes with its last.
static void a_line_goes(void **state)
{
    (void)state;
    wait_as('A');
    rounds_leave(&ones[0].place);
    rounds_line_done(&lines[0]);
    memset(&lines[0], 0xff, sizeof lines[0]);
    wait_as('a');
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_take_turns, start, stop),
        cmocka_unit_test_setup_teardown(who_comes_again_is_behind, start, stop),
        cmocka_unit_test_setup_teardown(long_work_leaves_the_rest_for_the_next_turn, start, stop),
        cmocka_unit_test_setup_teardown(one_has_its_turn_in_each_turn_of_the_loop, start_one_by_one,
                                        stop),
        cmocka_unit_test_setup_teardown(who_leaves_has_no_turn, start, stop),
        cmocka_unit_test_setup_teardown(a_crowd_is_known, start, stop),
        cmocka_unit_test_setup_teardown(a_line_goes, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
