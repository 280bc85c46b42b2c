// erf_many() against doubles of libm, with the instructions that DNNL_MAX_CPU_ISA allows.
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/simd/functions/erf.h"
#include "tests/support/checks/floats.h"

static double exact(bool gelu, double x)
{
    return gelu ? x / 2 * erfc(-x / M_SQRT2) : erf(x);
}

// A GELU far below 0 is a difference of two numbers of x's size.
static bool is_near(bool gelu, double x, float y)
{
    double right = exact(gelu, x);
    return floats_distance(right, y) <= 4 || (gelu && fabs((double)y - right) <= fabs(x) * 0x1p-23);
}

static void check_chunk(bool gelu, const float *x, size_t n)
{
    float y[FLOATS_CHUNK];
    memcpy(y, x, n * sizeof *x);
    erf_many(gelu, y, n);
    for (size_t i = 0; i < n; i++)
        if (!is_near(gelu, (double)x[i], y[i]))
            fail_msg("%a becomes %a, not %a", (double)x[i], (double)y[i],
                     exact(gelu, (double)x[i]));
}

static void test_floats_of_all_sizes(void **state)
{
    (void)state;
    floats_each(check_chunk);
}

// Where polynomials follow each other, and the last one ends.
static void test_between_parts(void **state)
{
    float x[FLOATS_CHUNK];
    (void)state;
    for (size_t first = 0; first < 200; first++) {
        for (size_t i = 0; i < FLOATS_CHUNK; i++)
            x[i] = ((float)first + (float)i / FLOATS_CHUNK) * (first % 2 ? -0.03125f : 0.03125f);
        check_chunk(false, x, FLOATS_CHUNK);
        check_chunk(true, x, FLOATS_CHUNK);
    }
}

// Arrays that are no whole vectors: what lies behind stays.
static void test_all_lengths(void **state)
{
    (void)state;
    for (size_t n = 0; n < 70; n++) {
        float x[72];
        for (size_t i = 0; i < 72; i++)
            x[i] = (float)i / 8 - 4;
        erf_many(false, x, n);
        for (size_t i = 0; i < 72; i++) {
            float v = (float)i / 8 - 4;
            assert_true(i < n ? is_near(false, (double)v, x[i]) : x[i] == v);
        }
    }
}

static void test_what_is_no_number(void **state)
{
    float x[6] = {NAN, INFINITY, -INFINITY, 0, -0.0f, -1e30f}, y[6];
    (void)state;
    memcpy(y, x, sizeof x);
    erf_many(false, y, 6);
    assert_true(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 0 && y[4] == 0 && y[5] == -1);
    assert_true(!signbit(y[3]) && signbit(y[4]));
    memcpy(y, x, sizeof x);
    erf_many(true, y, 6);
    assert_true(isnan(y[0]) && isinf(y[1]) && y[3] == 0 && y[4] == 0 && y[5] == 0);
}

// With numbers that underflow CPUs are tens of times as slow.
static void test_nothing_underflows(void **state)
{
    (void)state;
    for (int power = -1; power >= -124; power--) {
        float x[32];
        for (int i = 0; i < 32; i++)
            x[i] = ldexpf(i % 2 ? -1.3f : 1.7f, power);
        feclearexcept(FE_ALL_EXCEPT);
        erf_many(false, x, 32);
        assert_false(fetestexcept(FE_UNDERFLOW));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_of_all_sizes), cmocka_unit_test(test_between_parts),
        cmocka_unit_test(test_all_lengths),         cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_nothing_underflows),
    };
    if (!erf_fits()) {
        print_message("skipped: the CPU has no such instructions, or they are not allowed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
