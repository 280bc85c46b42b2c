// Who asks before a snapshot is begun has that one, who asks later the next; a turn of the loop
// makes one slice; what nobody waits for any more is given up; a failure is everybody's who waited
// for it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "server/net/snapshots.h"

#define SLICES 4

struct one {
    struct snapshot_asker asker;
    unsigned told, failed;
    char text[8];
};

static uv_loop_t loop;
static struct snapshots all;
static uv_prepare_t behind; // each turn of the loop
static unsigned n_begun, n_ended, slices, slices_before, most_in_turn;
static unsigned fail_at; // slice; 0: none
static bool waits;       // what a snapshot is made of comes later

static void prepare(struct snapshots *s)
{
    if (!waits)
        snapshots_begin(s);
}

static int begin(struct snapshots *s, struct error *e)
{
    (void)s, (void)e;
    n_begun++;
    slices = slices_before = 0;
    return 0;
}

static int more(struct snapshots *s, struct error *e)
{
    (void)s;
    if (++slices == fail_at)
        return error_set(e, STATUS_FAIL, "the slice cannot be had");
    return slices < SLICES;
}

static int end(struct snapshots *s, void **data, size_t *size, struct error *e)
{
    (void)s, (void)e;
    n_ended++;
    *data = strdup(n_begun == 1 ? "first" : "second");
    *size = strlen(*data);
    return 0;
}

static const struct snapshots_ops ops = {
    .part = "a test", .prepare = prepare, .begin = begin, .more = more, .end = end};

static void on_told(struct snapshot_asker *a, struct snapshot *n, const struct error *e)
{
    struct one *o = container_of(a, struct one, asker);
    o->told++;
    o->failed += !n;
    if (n)
        memcpy(o->text, n->data, n->size);
    else
        assert_string_equal(e->text, "the slice cannot be had");
}

static void on_behind(uv_prepare_t *p)
{
    (void)p;
    unsigned made = slices - slices_before;
    most_in_turn = made > most_in_turn ? made : most_in_turn;
    slices_before = slices;
}

static int start(void **state)
{
    (void)state;
    n_begun = n_ended = slices = slices_before = most_in_turn = fail_at = 0;
    waits = false;
    memset(&all, 0, sizeof all);
    uv_loop_init(&loop);
    uv_prepare_init(&loop, &behind);
    uv_prepare_start(&behind, on_behind);
    uv_unref((uv_handle_t *)&behind);
    snapshots_init(&all, &ops, &loop);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    snapshots_close(&all);
    snapshots_close(&all);
    uv_close((uv_handle_t *)&behind, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_ended, n_begun);
    return uv_loop_close(&loop);
}

static void ask(struct one *o)
{
    *o = (struct one){.asker.told = on_told};
    snapshots_get(&all, &o->asker);
}

// Until the first slice of one is there.
static void make_a_slice(void)
{
    while (slices == 0)
        uv_run(&loop, UV_RUN_ONCE);
}

static void one_for_all(void **state)
{
    struct one a, b, late;
    (void)state;
    ask(&a);
    ask(&b);
    assert_int_equal(a.told, 0); // never from inside
    make_a_slice();
    ask(&late);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(a.text, "first");
    assert_string_equal(b.text, "first");
    assert_string_equal(late.text, "second");
    assert_int_equal(a.told + b.told + late.told, 3);
    assert_int_equal(n_begun, 2);
    assert_int_equal(most_in_turn, 1);
}

static void what_nobody_wants_is_given_up(void **state)
{
    struct one a;
    (void)state;
    ask(&a);
    make_a_slice();
    list_remove(&a.asker.link);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(slices, 1);
    assert_int_equal(n_ended, 1);
    assert_int_equal(a.told, 0);
}

static void failures_are_told(void **state)
{
    struct one a, b;
    (void)state;
    fail_at = 2;
    ask(&a);
    ask(&b);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(a.failed + b.failed, 2);
    fail_at = 0;
    ask(&a);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(a.failed, 0);
    assert_string_equal(a.text, "second");
}

// Whoever has asked when it is begun has it, however long it took to prepare.
static void preparing_takes_time(void **state)
{
    struct one a, b;
    (void)state;
    waits = true;
    ask(&a);
    uv_run(&loop, UV_RUN_DEFAULT);
    ask(&b);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_begun, 0);
    snapshots_begin(&all);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(a.text, "first");
    assert_string_equal(b.text, "first");
}

static void closed_amid_of_one(void **state)
{
    struct one a;
    (void)state;
    ask(&a);
    make_a_slice();
    snapshots_close(&all);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(a.told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_for_all, start, stop),
        cmocka_unit_test_setup_teardown(what_nobody_wants_is_given_up, start, stop),
        cmocka_unit_test_setup_teardown(failures_are_told, start, stop),
        cmocka_unit_test_setup_teardown(preparing_takes_time, start, stop),
        cmocka_unit_test_setup_teardown(closed_amid_of_one, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
