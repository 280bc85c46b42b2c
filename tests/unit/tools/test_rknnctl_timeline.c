// A timeline has a well-formed end for every beginning, whatever part of the events is known.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/view/timeline.h"

static const rknnd_event life[] = {
    {.kind = RKNND_EVENT_CONNECT, .time_us = 10, .client = 7, .id = 1, .text = "digits[12]"},
    {.kind = RKNND_EVENT_UPLOAD, .time_us = 11, .client = 7, .id = 99, .text = "m.rknn"},
    {.kind = RKNND_EVENT_UPLOADED, .time_us = 20, .id = 99, .text = "m.rknn"},
    {.kind = RKNND_EVENT_LOAD, .time_us = 21, .id = 99, .text = "m.rknn"},
    {.kind = RKNND_EVENT_LOADED, .time_us = 30, .id = 99, .text = "m.rknn"},
    {.kind = RKNND_EVENT_INPUTS, .time_us = 40, .client = 7, .id = 5, .text = "m.rknn"},
    {.kind = RKNND_EVENT_QUEUED, .time_us = 50, .client = 7, .id = 5, .text = "m.rknn"},
    {.kind = RKNND_EVENT_STARTED, .time_us = 60, .client = 7, .id = 5, .cores = 6},
    {.kind = RKNND_EVENT_ENDED, .time_us = 90, .client = 7, .id = 5, .cores = 6, .text = "m.rknn"},
    {.kind = RKNND_EVENT_GONE, .time_us = 95, .client = 7, .id = 5},
    {.kind = RKNND_EVENT_LAYER, .time_us = 60, .id = 5, .value = 9, .cores = 2, .text = "Conv:a"},
    {.kind = RKNND_EVENT_WORKER_DIED, .time_us = 99, .id = 4321, .text = "m.rknn"},
    {.kind = 77, .time_us = 100, .text = "from a newer server"},
    {.kind = RKNND_EVENT_DISCONNECT, .time_us = 120, .client = 7, .id = 1},
};

#define N_EVENTS (sizeof life / sizeof *life)

static json_t *draw(size_t first, size_t end)
{
    struct timeline t;
    timeline_init(&t);
    for (size_t i = first; i < end; i++)
        timeline_add(&t, &life[i]);
    json_t *all = timeline_finish(&t);
    assert_non_null(all);
    timeline_done(&t);
    return all;
}

static const char *text(json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));
    return value ? value : "";
}

static json_int_t number(json_t *event, const char *key)
{
    return json_integer_value(json_object_get(event, key));
}

// The n-th event with this "ph" and name.
static json_t *find(json_t *all, const char *ph, const char *name, int n)
{
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(all, "traceEvents"), i,
                       event) if (strcmp(text(event, "ph"), ph) == 0 &&
                                  strcmp(text(event, "name"), name) == 0 && n-- == 0) return event;
    fail_msg("no %s %s", ph, name);
    return NULL;
}

static void check_span(json_t *all, const char *name, json_int_t begin, json_int_t end)
{
    assert_int_equal(number(find(all, "b", name, 0), "ts"), begin);
    assert_int_equal(number(find(all, "e", name, 0), "ts"), end);
}

static void a_run_has_its_phases_and_cores(void **state)
{
    (void)state;
    json_t *all = draw(0, N_EVENTS);
    check_span(all, "m.rknn", 40, 95);
    check_span(all, "inputs", 40, 50);
    check_span(all, "queue", 50, 60);
    check_span(all, "run", 60, 90);
    check_span(all, "outputs", 90, 95);
    check_span(all, "upload m.rknn", 11, 20);
    check_span(all, "load m.rknn", 21, 30);
    for (int i = 0; i < 2; i++) {
        json_t *work = find(all, "X", "m.rknn", i);
        assert_int_equal(number(work, "tid"), i + 1); // cores 1 and 2
        assert_int_equal(number(work, "ts"), 60);
        assert_int_equal(number(work, "dur"), 30);
    }
    assert_int_equal(number(find(all, "X", "Conv:a", 0), "dur"), 9);
    assert_string_equal(text(find(all, "i", "worker died: m.rknn", 0), "s"), "t");
    json_t *first = find(all, "C", "runs", 0), *last = find(all, "C", "runs", 2);
    assert_int_equal(number(json_object_get(first, "args"), "waiting"), 1);
    assert_int_equal(number(json_object_get(last, "args"), "waiting"), 0);
    assert_int_equal(number(json_object_get(last, "args"), "running"), 0);
    json_decref(all);
}

// No end without its beginning, none before it.
static void check_nesting(json_t *all)
{
    size_t i;
    json_t *event, *open = json_object();
    json_array_foreach(json_object_get(all, "traceEvents"), i, event)
    {
        char key[200];
        const char *ph = text(event, "ph");
        snprintf(key, sizeof key, "%s %s %s", text(event, "cat"), text(event, "id"),
                 text(event, "name"));
        if (*ph == 'b')
            assert_int_equal(json_object_set_new(open, key, json_true()), 0);
        else if (*ph == 'e')
            assert_int_equal(json_object_del(open, key), 0);
        else if (*ph == 'X')
            assert_cmp(number(event, "dur"), >=, 0);
    }
    json_decref(open);
}

static void any_part_is_a_timeline(void **state)
{
    (void)state;
    for (size_t first = 0; first < N_EVENTS; first++)
        for (size_t end = first; end <= N_EVENTS; end++) {
            json_t *all = draw(first, end);
            check_nesting(all);
            json_decref(all);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_its_phases_and_cores),
        cmocka_unit_test(any_part_is_a_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
