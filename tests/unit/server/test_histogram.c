// Histograms of times, as Prometheus defines them: a bucket's bound belongs to it ("le").
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/metrics/metrics.h"

static void bounds_belong_to_their_buckets(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METRICS_N_BUCKETS; i++) {
        struct metrics_histogram h = {0};
        metrics_observe(&h, metrics_bounds[i]);
        assert_int_equal(h.in[i], 1);
        metrics_observe(&h, metrics_bounds[i] + 1);
        assert_int_equal(h.in[i], 1);
        if (i + 1 < METRICS_N_BUCKETS)
            assert_int_equal(h.in[i + 1], 1);
        assert_int_equal(h.n, 2);
        assert_int_equal(h.sum_us, 2 * metrics_bounds[i] + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bounds_belong_to_their_buckets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
