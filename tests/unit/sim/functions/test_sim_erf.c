// erf_many(), exponential_row() and exponential_softmax() against doubles of libm, with the
// instructions that DNNL_MAX_CPU_ISA allows.
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/simd/functions/erf.h"
#include "npu/sim/simd/functions/exponential.h"
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

// ---- exponentials ----

static void check_exponentials(bool less, const float *x, size_t n)
{
    float below[FLOATS_CHUNK], y[FLOATS_CHUNK], top = less ? 3.25f : 0;
    for (size_t i = 0; i < n; i++)
        below[i] = x[i] > top ? top - x[i] : x[i];
    double sum = 0, got = (double)exponential_row(below, top, n, y);
    for (size_t i = 0; i < n; i++) {
        float v = below[i] - top;
        double right = exp((double)v);
        sum += (double)y[i];
        if (!(floats_distance(right, y[i]) <= 2) && !(v < -87 && y[i] <= 0))
            fail_msg("%a becomes %a, not %a", (double)v, (double)y[i], right);
    }
    assert_true(fabs(got - sum) <= sum * 1e-5);
}

static void test_exponentials_of_all_sizes(void **state)
{
    (void)state;
    floats_each(check_exponentials);
}

// Rows of all lengths, in place and not; what lies behind stays.
static void test_softmax(void **state)
{
    (void)state;
    for (size_t n = 1; n < 70; n++) {
        float x[3 * 70 + 1], y[3 * 70 + 1] = {0};
        for (size_t i = 0; i < 3 * n + 1; i++)
            x[i] = (float)((i * 37 + n) % 101) / 8 - 6;
        y[3 * n] = 7;
        exponential_softmax(x, 3, n, y);
        assert_true(y[3 * n] >= 7 && y[3 * n] <= 7);
        for (size_t row = 0; row < 3; row++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += exp((double)x[row * n + i]);
            for (size_t i = 0; i < n; i++)
                assert_true(floats_distance(exp((double)x[row * n + i]) / sum, y[row * n + i]) < 8);
        }
        exponential_softmax(x, 3, n, x);
        assert_memory_equal(x, y, 3 * n * sizeof *x);
    }
}

static void test_softmax_of_no_numbers(void **state)
{
    (void)state;
    for (size_t n = 2; n < 40; n++)
        for (size_t at = 0; at < n; at++) {
            float x[40] = {0}, y[40];
            x[at] = -INFINITY;
            exponential_softmax(x, 1, n, y);
            for (size_t i = 0; i < n; i++)
                assert_true(i == at ? y[i] <= 0 : floats_distance(1 / ((double)n - 1), y[i]) <= 4);
            x[at] = NAN;
            exponential_softmax(x, 1, n, y);
            for (size_t i = 0; i < n; i++)
                assert_true(isnan(y[i]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_of_all_sizes),
        cmocka_unit_test(test_between_parts),
        cmocka_unit_test(test_all_lengths),
        cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_nothing_underflows),
        cmocka_unit_test(test_exponentials_of_all_sizes),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_of_no_numbers),
    };
    if (!erf_fits()) {
        print_message("skipped: the CPU has no such instructions, or they are not allowed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
