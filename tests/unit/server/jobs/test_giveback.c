// Memory on its way back: of what is small some goes at once, and what is too much for a turn of
// the loop in others; all of it goes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/jobs/giveback.h"

#define MANY 300
#define SIZE 4096
#define NAME "given-back"

static uv_loop_t loop;
static struct rounds rounds;
static struct givebacks all;

static void give(void)
{
    struct giveback_memory m = {.size = SIZE, .fd = memfd_create(NAME, MFD_CLOEXEC)};
    assert_cmp(m.fd, >=, 0);
    assert_int_equal(ftruncate(m.fd, SIZE), 0);
    m.map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, m.fd, 0);
    assert_ptr_not_equal(m.map, MAP_FAILED);
    give_back(&all, &m, NULL, 0);
}

// By name: others may be mapped where one has gone, by a sanitizer's allocator for example.
static unsigned count_mapped(void)
{
    char line[512];
    unsigned mapped = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        mapped += strstr(line, "memfd:" NAME) != NULL;
    fclose(maps);
    return mapped;
}

static int start(void **state)
{
    struct error e;
    (void)state;
    uv_loop_init(&loop);
    rounds_init(&rounds, &loop, 2);
    givebacks_init(&all, &rounds);
    return givebacks_start(&all, &loop, &e);
}

static int stop(void **state)
{
    (void)state;
    givebacks_hurry(&all);
    givebacks_close(&all);
    rounds_close(&rounds);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void few_go_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GIVEBACK_SMALL; i++) {
        give();
        assert_int_equal(count_mapped(), 0);
    }
}

static void many_take_turns(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        give();
    assert_int_equal(count_mapped(), MANY - GIVEBACK_SMALL);
    while (count_mapped() > 0)
        uv_run(&loop, UV_RUN_ONCE);
}

static void a_turn_later_they_go_at_once_again(void **state)
{
    (void)state;
    many_take_turns(state);
    for (uint64_t before = uv_now(&loop); uv_now(&loop) == before;)
        uv_update_time(&loop);
    few_go_at_once(state);
}

static void at_the_end_all_go_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        give();
    givebacks_hurry(&all);
    assert_int_equal(count_mapped(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_go_at_once, start, stop),
        cmocka_unit_test_setup_teardown(many_take_turns, start, stop),
        cmocka_unit_test_setup_teardown(a_turn_later_they_go_at_once_again, start, stop),
        cmocka_unit_test_setup_teardown(at_the_end_all_go_at_once, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
