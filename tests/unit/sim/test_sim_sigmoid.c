// sigmoid_many() against doubles of libm, with the instructions that DNNL_MAX_CPU_ISA allows.
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/sigmoid.h"
#include "tests/support/checks/floats.h"

#define LEAST 0x1p-126 // below, 0 will do

static double exact(bool times_x, double x)
{
    return (times_x ? x : 1) / (1 + exp(-x));
}

static void check_chunk(bool times_x, const float *x, size_t n)
{
    float y[FLOATS_CHUNK];
    memcpy(y, x, n * sizeof *x);
    sigmoid_many(times_x, y, n);
    for (size_t i = 0; i < n; i++) {
        double right = exact(times_x, (double)x[i]);
        bool small = x[i] < -87 && (double)fabsf(y[i]) <= -(double)x[i] * LEAST * 2;
        if (!small && !(floats_distance(right, y[i]) <= 4))
            fail_msg("%a becomes %a, not %a", (double)x[i], (double)y[i], right);
    }
}

static void test_floats_of_all_sizes(void **state)
{
    (void)state;
    floats_each(check_chunk);
}

// Arrays that are no whole vectors: what lies behind stays.
static void test_all_lengths(void **state)
{
    (void)state;
    for (size_t n = 0; n < 70; n++) {
        float x[72];
        for (size_t i = 0; i < 72; i++)
            x[i] = (float)i / 8 - 4;
        sigmoid_many(true, x, n);
        for (size_t i = 0; i < 72; i++) {
            float v = (float)i / 8 - 4;
            assert_true(i < n ? floats_distance(exact(true, (double)v), x[i]) <= 3 : x[i] == v);
        }
    }
}

static void test_what_is_no_number(void **state)
{
    float x[5] = {NAN, INFINITY, -INFINITY, 0, -0.0f}, y[5];
    (void)state;
    memcpy(y, x, sizeof x);
    sigmoid_many(false, y, 5);
    assert_true(isnan(y[0]) && y[1] == 1 && y[2] == 0 && y[3] == .5f && y[4] == .5f);
    memcpy(y, x, sizeof x);
    sigmoid_many(true, y, 5);
    assert_true(isnan(y[0]) && isinf(y[1]) && y[3] == 0 && y[4] == 0 && signbit(y[4]));
}

// With numbers that underflow CPUs are tens of times as slow.
static void test_nothing_underflows(void **state)
{
    (void)state;
    for (int power = -1; power >= -126; power--) {
        float x[32], y[32];
        for (int i = 0; i < 32; i++)
            x[i] = ldexpf(i % 2 ? -1.3f : 1.7f, power);
        memcpy(y, x, sizeof x);
        feclearexcept(FE_ALL_EXCEPT);
        sigmoid_many(false, y, 32);
        assert_false(fetestexcept(FE_UNDERFLOW));
        check_chunk(false, x, 32);
        check_chunk(true, x, 32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_of_all_sizes),
        cmocka_unit_test(test_all_lengths),
        cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_nothing_underflows),
    };
    if (!sigmoid_fits()) {
        print_message("skipped: the CPU has no such instructions, or they are not allowed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
