// Arrays grow, keep what is in them, and refuse what cannot be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"

static void items_stay_while_it_grows(void **state)
{
    (void)state;
    uint64_t *items = NULL;
    uint32_t n = 0, room = 0, moves = 0;
    while (n < 1000) {
        uint32_t before = room;
        assert_int_equal(array_reserve(items, room, n + 1, "numbers", NULL), 0);
        assert_cmp(room, >, n);
        moves += room != before;
        items[n] = n * UINT64_C(3);
        n++;
    }
    assert_cmp(moves, <, 10);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(items[i], i * 3);
    free(items);
}

static void many_are_reserved_at_once(void **state)
{
    (void)state;
    char *items = NULL;
    size_t room = 0;
    assert_int_equal(array_reserve(items, room, 12345, "bytes", NULL), 0);
    assert_cmp(room, >=, 12345);
    const char *before = items;
    assert_int_equal(array_reserve(items, room, room, "bytes", NULL), 0);
    assert_ptr_equal(items, before);
    free(items);
}

static void the_last_room_is_what_the_number_can_say(void **state)
{
    (void)state;
    uint16_t *items = NULL;
    uint8_t room = 0;
    struct error e = {0};
    for (uint32_t n = 0; n < 255; n++)
        assert_int_equal(array_reserve(items, room, n + 1, "numbers", &e), 0);
    assert_int_equal(room, 255);
    const uint16_t *before = items;
    assert_int_equal(array_reserve(items, room, 256, "numbers", &e), STATUS_MALLOC_FAIL);
    assert_string_equal(e.text, "no memory for numbers");
    assert_int_equal(room, 255);
    assert_ptr_equal(items, before);
    free(items);
}

static void sizes_do_not_overflow(void **state)
{
    (void)state;
    struct large {
        char bytes[4096];
    } *items = NULL;
    size_t room = 0;
    assert_int_equal(array_reserve(items, room, SIZE_MAX / 4096 + 2, "things", NULL),
                     STATUS_MALLOC_FAIL);
    assert_int_equal(array_reserve(items, room, SIZE_MAX, "things", NULL), STATUS_MALLOC_FAIL);
    assert_null(items);
    assert_int_equal(room, 0);
    assert_int_equal(array_next_room(SIZE_MAX / 2 + 2, 1, SIZE_MAX, 1), PTRDIFF_MAX);
    assert_int_equal(array_next_room(0, 1, 3, 1), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay_while_it_grows),
        cmocka_unit_test(many_are_reserved_at_once),
        cmocka_unit_test(the_last_room_is_what_the_number_can_say),
        cmocka_unit_test(sizes_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
