// Memory that is given out piece by piece: zeroed, aligned, and where none is to be had.
#include "npu/model/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MB ((size_t)1 << 20)

// Sizes below and above what has a block of its own, and a large page; memory that was written to
// before comes again.
static void test_pieces_are_zeroed_and_aligned(void **state)
{
    (void)state;
    const struct {
        size_t size, alignment;
    } pieces[] = {{1, 16},          {511, 16},        {512, 64},           {20000, 64},
                  {2 * MB - 1, 64}, {2 * MB, 2 * MB}, {5 * MB + 3, 2 * MB}};
    for (int turn = 0; turn < 3; turn++) {
        struct pool pool = {0};
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            uint8_t *piece = pool_alloc(&pool, pieces[i].size, 1);
            assert_non_null(piece);
            assert_int_equal((uintptr_t)piece % pieces[i].alignment, 0);
            for (size_t k = 0; k < pieces[i].size; k += 255)
                assert_int_equal(piece[k], 0);
            memset(piece, 0xff, pieces[i].size);
        }
        pool_done(&pool);
    }
}

static void test_sizes_that_overflow(void **state)
{
    (void)state;
    struct pool pool = {0};
    assert_null(pool_alloc(&pool, SIZE_MAX, 2));
    assert_null(pool_alloc(&pool, SIZE_MAX - 8, 1));
    assert_int_equal(pool.total, 0);
    pool_done(&pool);
}

static void test_arrays_grow(void **state)
{
    (void)state;
    struct pool pool = {0};
    uint32_t *items = NULL;
    uint8_t n = 0, room = 0;
    for (; n < UINT8_MAX; n++) {
        assert_true(pool_reserve(&pool, items, n, room, (size_t)n + 1));
        items[n] = n;
    }
    assert_false(pool_reserve(&pool, items, n, room, (size_t)n + 1)); // an uint8_t counts no more
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(items[i], i);
    pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_zeroed_and_aligned),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_arrays_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
