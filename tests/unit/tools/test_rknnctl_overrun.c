// rknnctl bench --rate: when it is said that more was asked for than could be done.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/bench/bench.h"

#define MS   UINT64_C(1000000)
#define RUNS 40u

// One client that does runs which are asked for every `every_ms`, and of which number i takes
// took_ms(i), one after the other.
static struct bench_result measure(struct bench_sample samples[RUNS], uint64_t every_ms,
                                   uint64_t (*took_ms)(unsigned i))
{
    uint64_t free_at = 0;
    for (unsigned i = 0; i < RUNS; i++) {
        uint64_t asked = i * every_ms * MS, begun = free_at > asked ? free_at : asked;
        free_at = begun + took_ms(i) * MS;
        samples[i] = (struct bench_sample){
            .start_ns = asked, .late_ns = begun - asked, .latency_ns = free_at - asked};
    }
    return (struct bench_result){.n = RUNS, .wall_ns = free_at, .samples = samples};
}

static bool is_overrun(uint64_t every_ms, uint64_t (*took_ms)(unsigned i))
{
    struct bench_sample samples[RUNS];
    struct bench_result r = measure(samples, every_ms, took_ms);
    uint64_t before, after;
    return bench_is_overrun(&r, 1000.0 / (double)every_ms, &before, &after);
}

static uint64_t always_10(unsigned i)
{
    (void)i;
    return 10;
}

static uint64_t first_1000(unsigned i)
{
    return i == 0 ? 1000 : 10;
}

static uint64_t middle_1000(unsigned i)
{
    return i == RUNS / 2 ? 1000 : 10;
}

static uint64_t last_1000(unsigned i)
{
    return i == RUNS - 1 ? 1000 : 10;
}

static void test_a_queue_is_told(void **state)
{
    (void)state;
    assert_true(is_overrun(5, always_10));
    assert_true(is_overrun(5, first_1000)); // all others wait for longer than they take
}

static void test_slow_runs_are_none(void **state)
{
    (void)state;
    assert_false(is_overrun(11, always_10));
    assert_false(is_overrun(100, first_1000));
    assert_false(is_overrun(100, middle_1000));
    assert_false(is_overrun(100, last_1000));
}

// Samples come client by client, not by time: the quarters are those of the time.
static void test_order_of_clients(void **state)
{
    (void)state;
    struct bench_sample samples[RUNS], turned[RUNS];
    uint64_t before, after;
    struct bench_result r = measure(samples, 5, always_10);
    for (unsigned i = 0; i < RUNS; i++)
        turned[i] = samples[RUNS - 1 - i];
    r.samples = turned;
    assert_true(bench_is_overrun(&r, 200, &before, &after));
    assert_int_equal(before, (10 + 4 * 5) * MS); // the fifth run of the first ten
    assert_int_equal(after, (10 + 34 * 5) * MS);
}

static void test_few_runs_say_nothing(void **state)
{
    (void)state;
    struct bench_sample samples[RUNS];
    uint64_t before, after;
    struct bench_result r = measure(samples, 5, always_10);
    r.n = 7;
    assert_false(bench_is_overrun(&r, 200, &before, &after));
}

// 100 a second are done, and 200 came at times: chance may ask for more than was wanted.
static void test_as_many_as_asked_are_enough(void **state)
{
    (void)state;
    struct bench_sample samples[RUNS];
    uint64_t before, after;
    struct bench_result r = measure(samples, 5, always_10);
    assert_true(bench_is_overrun(&r, 101, &before, &after));
    assert_false(bench_is_overrun(&r, 100, &before, &after));
    assert_false(bench_is_overrun(&r, 90, &before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_queue_is_told),
        cmocka_unit_test(test_slow_runs_are_none),
        cmocka_unit_test(test_order_of_clients),
        cmocka_unit_test(test_few_runs_say_nothing),
        cmocka_unit_test(test_as_many_as_asked_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
