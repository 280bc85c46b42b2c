// The ring gives back the newest lines, whole and in order, however they wrap.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log_ring.h"

#define SIZE (4 * LOG_RING_TEXT)

static int set_up(void **state)
{
    static struct log_ring ring;
    *state = &ring;
    return log_ring_init(&ring, SIZE, NULL);
}

static int tear_down(void **state)
{
    log_ring_done(*state);
    return 0;
}

// A line whose text follows from its number, of many lengths.
static void put_number(struct log_ring *r, uint64_t number)
{
    char text[400];
    int length = (int)(number * 37 % 300);
    snprintf(text, sizeof text, "%llu:%.*s", (unsigned long long)number, length,
             "................................................................................"
             "................................................................................"
             "................................................................................"
             "............................................................");
    log_ring_put(r, number % 2 ? LOG_INFO : LOG_ERROR, number * 1000, text);
}

static void an_empty_ring_has_no_line(void **state)
{
    struct log_ring *r = *state;
    struct log_ring_line line;
    struct log_ring_cursor c = log_ring_seek(r, 1);
    assert_int_equal(c.number, 1);
    assert_false(log_ring_read(r, &c, &line));
}

static void the_newest_lines_are_there_whole(void **state)
{
    struct log_ring *r = *state;
    struct log_ring_line line;
    for (uint64_t number = 1; number <= 1000; number++) {
        put_number(r, number);
        struct log_ring_cursor c = log_ring_seek(r, 0);
        uint64_t expected = c.number, bytes = 0;
        while (log_ring_read(r, &c, &line)) {
            assert_int_equal(line.time_us, expected * 1000);
            assert_int_equal(line.level, expected % 2 ? LOG_INFO : LOG_ERROR);
            assert_int_equal(strtoull(line.text, NULL, 10), expected);
            bytes += strlen(line.text);
            expected++;
        }
        assert_int_equal(expected, number + 1);
        assert_cmp(bytes, <=, SIZE);
        assert_true(number < 20 || bytes > SIZE / 2);
    }
}

static void seeking_finds_what_is_there(void **state)
{
    struct log_ring *r = *state;
    struct log_ring_line line;
    for (uint64_t number = 1; number <= 200; number++)
        put_number(r, number);
    struct log_ring_cursor c = log_ring_seek(r, 198);
    assert_true(log_ring_read(r, &c, &line));
    assert_int_equal(line.time_us, 198000);
    c = log_ring_seek(r, 1);
    assert_cmp(c.number, >, 1);
    assert_int_equal(c.number, r->first);
    c = log_ring_seek(r, 5000);
    assert_int_equal(c.number, 201);
    assert_false(log_ring_read(r, &c, &line));
}

static void long_lines_are_cut(void **state)
{
    struct log_ring *r = *state;
    struct log_ring_line line;
    char text[3 * LOG_RING_TEXT];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < 10; i++)
        log_ring_put(r, LOG_INFO, 0, text);
    log_ring_put(r, LOG_INFO, 0, "");
    struct log_ring_cursor c = log_ring_seek(r, 10);
    assert_true(log_ring_read(r, &c, &line));
    assert_int_equal(strlen(line.text), LOG_RING_TEXT - 1);
    assert_true(log_ring_read(r, &c, &line));
    assert_string_equal(line.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_ring_has_no_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_lines_are_there_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(seeking_finds_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_lines_are_cut, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
