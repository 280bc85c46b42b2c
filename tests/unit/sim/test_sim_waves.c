// Sines, cosines and logarithms of elements_post() against libm's of doubles, with the instructions
// that DNNL_MAX_CPU_ISA allows; and the functions that are exact.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/simd/elements.h"
#include "tests/support/checks/floats.h"

static void check_chunk(bool cosine, const float *x, size_t n)
{
    const struct graph_post post = {.kind = cosine ? POST_COS : POST_SIN};
    float y[FLOATS_CHUNK];
    memcpy(y, x, n * sizeof *x);
    elements_post(&post, y, n);
    for (size_t i = 0; i < n; i++) {
        double right = cosine ? cos((double)x[i]) : sin((double)x[i]);
        if (!(floats_distance(right, y[i]) <= 2))
            fail_msg("%s of %a is %a, not %a", cosine ? "cos" : "sin", (double)x[i], (double)y[i],
                     right);
    }
}

static void waves_of_floats_of_all_sizes(void **state)
{
    (void)state;
    floats_each(check_chunk);
}

// Nowhere are more digits lost: floats that come next to multiples of a quarter turn.
static void waves_beside_their_zeros(void **state)
{
    float x[FLOATS_CHUNK];
    (void)state;
    for (uint32_t first = 0; first < 700000; first += FLOATS_CHUNK / 2) {
        for (uint32_t i = 0; i < FLOATS_CHUNK; i++) {
            uint32_t quarters = first + i / 2;
            float near = (float)(quarters * 1.5707963267948966);
            x[i] = i & 1 ? -nextafterf(near, 0) : near;
        }
        check_chunk(false, x, FLOATS_CHUNK);
        check_chunk(true, x, FLOATS_CHUNK);
    }
}

static void waves_of_what_is_no_number(void **state)
{
    const struct graph_post posts[] = {{.kind = POST_SIN}, {.kind = POST_COS}};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        float x[] = {NAN, INFINITY, -INFINITY, 1e30f, 0};
        elements_post(&posts[k], x, 5);
        assert_true(isnan(x[0]) && isnan(x[1]) && isnan(x[2]));
        assert_true(floats_distance(k ? cos((double)1e30f) : sin((double)1e30f), x[3]) <= 2);
        assert_true(k ? x[4] >= 1 && x[4] <= 1 : x[4] >= 0 && x[4] <= 0);
    }
}

static void check_logarithms(bool which, const float *x, size_t n)
{
    const struct graph_post post = {.kind = POST_LOG};
    float y[FLOATS_CHUNK];
    (void)which;
    memcpy(y, x, n * sizeof *x);
    elements_post(&post, y, n);
    for (size_t i = 0; i < n; i++) {
        double right = log((double)x[i]);
        if (isnan(right)   ? !isnan(y[i])
            : isinf(right) ? !isinf(y[i]) || y[i] > 0
                           : !(floats_distance(right, y[i]) <= 1))
            fail_msg("log of %a is %a, not %a", (double)x[i], (double)y[i], right);
    }
}

// Next to 1 the result is as small as what is lost of 1.
static void logarithms_of_floats_of_all_sizes(void **state)
{
    float x[FLOATS_CHUNK];
    (void)state;
    floats_each(check_logarithms);
    for (uint32_t bits = 0x3f000000; bits < 0x40800000; bits += FLOATS_CHUNK) {
        for (uint32_t i = 0; i < FLOATS_CHUNK; i++)
            x[i] = floats_of_bits(bits + i);
        check_logarithms(false, x, FLOATS_CHUNK);
    }
    x[0] = INFINITY;
    x[1] = -INFINITY;
    x[2] = NAN;
    x[3] = -0.f;
    const struct graph_post post = {.kind = POST_LOG};
    elements_post(&post, x, 4);
    assert_true(isinf(x[0]) && x[0] > 0 && isnan(x[1]) && isnan(x[2]) && isinf(x[3]) && x[3] < 0);
}

static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double softsign_of(double x)
{
    return (double)((float)x / (1 + fabsf((float)x)));
}

static void others_are_exact(void **state)
{
    static const struct {
        enum graph_post_kind kind;
        double (*real)(double x);
    } rows[] = {
        {POST_CEIL, ceil}, {POST_ROUND, rint}, {POST_SIGN, sign_of}, {POST_SOFTSIGN, softsign_of}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += FLOATS_STEP * 101) {
            const struct graph_post post = {.kind = rows[k].kind};
            float x = floats_of_bits((uint32_t)bits), y[3] = {x, .5f, -1.5f};
            elements_post(&post, y, 3);
            double want = rows[k].real((double)x);
            assert_true(isnan(want) ? isnan(y[0]) : !(want < (double)y[0] || want > (double)y[0]));
            assert_true(!(rows[k].real(.5) < (double)y[1] || rows[k].real(.5) > (double)y[1]));
            assert_true(!(rows[k].real(-1.5) < (double)y[2] || rows[k].real(-1.5) > (double)y[2]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_of_floats_of_all_sizes),
        cmocka_unit_test(waves_beside_their_zeros),
        cmocka_unit_test(waves_of_what_is_no_number),
        cmocka_unit_test(logarithms_of_floats_of_all_sizes),
        cmocka_unit_test(others_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
