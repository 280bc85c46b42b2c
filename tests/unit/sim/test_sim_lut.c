// The chip's lookup table: random tables, from straight to rough ones, by all kernels, against
// numbers that are scaled, interpolated and rounded one by one with plenty of bits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/simd/lut_kernel.h"
#include "npu/sim/simd/lut_steps/lut_steps.h"
#include "tests/support/seed.h"

#define CASES     60
#define MOST      100
#define MOST_SUMS 5000
#define STEP      32

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)((uint32_t)rand() % (uint32_t)(high - low + 1));
}

// ---- what must come out ----

// a / 2^shift, rounded down.
static int64_t shifted_down(int64_t a, uint32_t shift)
{
    return (int64_t)floorl((long double)a / exp2l(shift));
}

static int8_t expected(const struct graph_lut *lut, int32_t v)
{
    int64_t y;
    if (v < -LUT_REACH) {
        y = lut->below[0] +
            shifted_down((int64_t)(v + LUT_REACH) * lut->slope[0], lut->slope_shift[0]);
    } else if (v > LUT_REACH) {
        y = lut->above[512] +
            shifted_down((int64_t)(v - LUT_REACH) * lut->slope[1], lut->slope_shift[1]);
    } else {
        const int16_t *t = v < 0 ? lut->below : lut->above;
        int32_t u = v < 0 ? v + LUT_REACH : v, i = u == LUT_REACH ? 511 : u / STEP;
        y = t[i] + shifted_down((int64_t)(t[i + 1] - t[i]) * (u - i * STEP), 5);
    }
    // The offset joins before the shift: ties go to the even stored value.
    long double stored = (long double)y * lut->out_factor / exp2l(lut->out_shift) + lut->out_offset;
    stored = rintl(stored);
    return (int8_t)(stored < -128 ? -128 : stored > 127 ? 127 : stored);
}

// ---- random tables ----

static double curve(int kind, double x)
{
    return kind == 0   ? x / (1 + exp(-x))
           : kind == 1 ? 1 / (1 + exp(-x))
           : kind == 2 ? tanh(x)
           : kind == 3 ? x * fmin(fmax(x / 6 + 0.5, 0), 1)
                       : fmax(x, 0.1 * x);
}

static int16_t point(int kind, double reach, double most, int32_t v)
{
    double y = kind == 5 ? between(-32768, 32767) : curve(kind, v * reach / LUT_REACH) * most;
    return (int16_t)fmin(fmax(rint(y), -32768), 32767);
}

// 5: rough, and steps of the output that jump about, for which there are no lines.
static struct graph_lut random_lut(void)
{
    struct graph_lut lut = {.slope_shift = {(uint32_t)between(0, 14), (uint32_t)between(0, 14)},
                            .out_factor = between(0x4000, 0x7fff),
                            .out_shift = (uint32_t)between(20, 28),
                            .out_offset = between(-128, 127)};
    int kind = between(0, 5);
    double reach = between(4, between(0, 1) ? 16 : 120),
           most = 32767 / curve(kind == 5 ? 0 : kind, reach);
    for (int i = 0; i < LUT_POINTS; i++) {
        lut.below[i] = point(kind, reach, most, i * STEP - LUT_REACH);
        lut.above[i] = point(kind, reach, most, i * STEP);
    }
    for (int side = 0; side < 2; side++)
        lut.slope[side] = (int16_t)(between(0, 2) ? between(-32768, 32767) : 0);
    lut.slope[0] = (int16_t)(between(0, 2) ? 0 : lut.slope[0]);
    return lut;
}

// ---- kernels ----

struct table {
    struct graph_lut lut;
    int8_t dense[LUT_N_DENSE];
    int covered, of_v; // jobs whose dense table had all numbers, and those whose elements were v
    struct lut_segments segments;
    struct lut_steps steps;
    struct lut_kernel kernel;
    bool lines;
    int jobs, in_doubles, in_steps[2]; // of w and of v
};

// Numbers at and around where something changes, and any.
static int32_t random_number(const struct table *t)
{
    static const int32_t edges[] = {-LUT_REACH, 0, LUT_REACH};
    int32_t low = t->kernel.bounds[0] - 3, high = t->kernel.bounds[1] + 3;
    switch (between(0, 3)) {
    case 0:
        return edges[between(0, 2)] + between(-2, 2);
    case 1:
        return t->kernel.bounds[between(0, 1)] + between(-2, 2);
    case 2:
        return between(low, high);
    default:
        return between(-LUT_REACH, LUT_REACH);
    }
}

// A factor of 15 bits over a power of two, at about `size`.
static double random_factor(double size)
{
    int shift = 14 - ilogb(size);
    return ldexp(between(0x4000, 0x7fff), -shift);
}

static int32_t saturated(long double v)
{
    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

static int32_t expected_input(const struct lut_job *job, size_t i)
{
    long double sum = job->sums[i] + job->bias[i % job->channels];
    int32_t v = saturated(rintl(sum * (long double)job->factor[i % job->channels]));
    return saturated(rintl((long double)v * (long double)job->kernel->bn));
}

static void check_outputs(const struct lut_job *job, const struct lut_kernel *with,
                          const char *kernel, void (*run)(const struct lut_job *))
{
    struct lut_job own = *job;
    own.kernel = with;
    job->dst[job->n] = 77;
    run(&own);
    assert_int_equal(job->dst[job->n], 77);
    for (size_t i = 0; i < job->n; i++) {
        int32_t v = expected_input(job, i);
        if (job->dst[i] != expected(job->kernel->lut, v))
            fail_msg("%s: %d (sum %d of %zu) becomes %d, expected %d", kernel, v, job->sums[i],
                     job->n, job->dst[i], expected(job->kernel->lut, v));
    }
}

// Which segments there are depends on the factors before the table.
static void check_steps(struct table *t, const struct lut_job *job)
{
    if (!lut_find_steps(&t->kernel, t->dense, &t->steps))
        return;
    t->in_steps[t->steps.of_v]++;
    struct lut_kernel with = t->kernel;
    with.steps = &t->steps;
    if (lut_has_steps())
        check_outputs(job, &with, "steps", lut_sums_steps);
}

// Which numbers a dense table has depends on them, too.
static void check_dense(struct table *t, const struct lut_job *job)
{
    struct lut_kernel with = t->kernel;
    lut_choose_dense(&with, t->dense);
    int8_t *bytes = malloc((size_t)with.n_dense);
    assert_non_null(bytes);
    lut_fill(&with, t->dense, bytes);
    with.dense = bytes;
    check_outputs(job, &with, "any", lut_sums_any);
    t->covered += with.first == with.bounds[0];
    t->of_v += with.of_v > 0;
    free(bytes);
}

// Sums around what the table's bounds are, which floats do not hold where factors are small.
static void check_sums(struct table *t)
{
    static int32_t sums[MOST_SUMS + LUT_LANES], bias[MOST + LUT_MORE];
    static float factor[MOST + LUT_MORE];
    static int8_t got[MOST_SUMS + 1];
    size_t channels = (size_t)between(1, MOST), n = (size_t)between(1, MOST_SUMS);
    bool without_bias = between(0, 1);
    double bn = random_factor(exp2(between(-3, 9))), most = 0;
    double reach = fmax(abs(t->kernel.bounds[0]), abs(t->kernel.bounds[1]));
    int smallest = between(15, 25); // 24: floats end there
    for (size_t i = 0; i < channels + LUT_MORE; i++) {
        bias[i] = without_bias ? 0 : i < channels ? between(-1000, 1000) : bias[i - channels];
        factor[i] =
            i < channels
                ? (float)random_factor(reach / exp2(between(120, 10 * smallest) / 10.0) / bn)
                : factor[i - channels];
    }
    for (size_t i = 0; i < n; i++) {
        double sum = random_number(t) / bn / (double)factor[i % channels];
        sum = fmin(fmax(sum, -1e9), 1e9);
        sums[i] = (int32_t)sum - bias[i % channels];
        most = fmax(most, fabs(sum));
    }
    lut_set_inputs(&t->kernel, bn, factor, channels, most);
    bool fits = lut_fits_float(&t->kernel, factor, channels, most);
    struct lut_job job = {&t->kernel, sums, bias, factor, channels, n, got, without_bias && fits};
    check_outputs(&job, &t->kernel, "exact", lut_sums_exact);
    if (!t->kernel.in_doubles)
        check_dense(t, &job);
    if (!t->kernel.in_doubles && t->lines)
        check_outputs(&job, &t->kernel, "lines", lut_sums_lines);
    if (!t->kernel.in_doubles)
        check_steps(t, &job);
    t->in_doubles += t->kernel.in_doubles;
    t->jobs++;
}

static bool make_table(struct table *t)
{
    t->lut = random_lut();
    lut_fill_dense(&t->lut, t->dense);
    const int8_t ends[2] = {expected(&t->lut, INT32_MIN), expected(&t->lut, INT32_MAX)};
    bool fits = lut_fit_segments(t->dense, ends, &t->segments);
    t->kernel = (struct lut_kernel){.lut = &t->lut, .segments = &t->segments};
    bool bounded = lut_find_bounds(&t->lut, LUT_MAX_V, t->kernel.bounds);
    t->lines = bounded && fits && lut_has_lines() && lut_fits_lines(&t->lut, t->kernel.bounds);
    return bounded;
}

static void random_tables(void **state)
{
    static struct table t;
    int bounded = 0, lines = 0;
    (void)state;
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        bool has_bounds = make_table(&t);
        for (int32_t v = -LUT_REACH; v < LUT_REACH; v++)
            assert_int_equal(t.dense[v + LUT_REACH], expected(&t.lut, v));
        bounded += has_bounds;
        lines += t.lines;
        if (!has_bounds)
            continue;
        for (int side = 0; side < 2; side++)
            assert_int_equal(lut_stored(&t.lut, t.kernel.bounds[side]),
                             lut_stored(&t.lut, side ? INT32_MAX : INT32_MIN));
        for (int i = 0; i < 8; i++)
            check_sums(&t);
    }
    print_message("of %d tables %d are bounded, %d by lines; %d of %d jobs in doubles, "
                  "%d and %d by steps\n",
                  CASES, bounded, lines, t.in_doubles, t.jobs, t.in_steps[0], t.in_steps[1]);
    if (!seed_tries_all())
        return;
    assert_true(t.in_steps[0] > t.jobs / 40 && t.in_steps[1] > t.jobs / 40);
    assert_true(t.in_doubles < t.jobs / 2);
    assert_in_range(t.covered, t.jobs / 20, t.jobs - t.jobs / 20); // both ways were tried
    assert_in_range(t.of_v, t.jobs / 20, t.jobs - t.jobs / 20);
}

static struct graph_lut silu(void)
{
    struct graph_lut lut = {.out_factor = 18546, .out_shift = 22, .out_offset = -122};
    for (int i = 0; i < LUT_POINTS; i++) {
        lut.below[i] = point(0, 5.78, 32767 / 5.76, i * STEP - LUT_REACH);
        lut.above[i] = point(0, 5.78, 32767 / 5.76, i * STEP);
    }
    return lut;
}

// Real tables must not fall back to looking up byte after byte.
static void smooth_tables_are_lines(void **state)
{
    static struct table t;
    (void)state;
    t.lut = silu();
    lut_fill_dense(&t.lut, t.dense);
    const int8_t ends[2] = {t.dense[0], t.dense[LUT_N_DENSE - 1]};
    assert_true(lut_fit_segments(t.dense, ends, &t.segments));
    assert_cmp(t.segments.n_exceptions, <, 10);
}

// … and have few steps in each segment, which fall, and then rise.
static void smooth_tables_have_few_steps(void **state)
{
    static struct table t;
    static const double bn[] = {0.75, 3.5};
    float factor = 1;
    (void)state;
    t.lut = silu();
    lut_fill_dense(&t.lut, t.dense);
    t.kernel = (struct lut_kernel){.lut = &t.lut};
    assert_true(lut_find_bounds(&t.lut, LUT_MAX_V, t.kernel.bounds));
    for (int i = 0; i < 2; i++) {
        lut_set_inputs(&t.kernel, bn[i], &factor, 1, 1);
        assert_true(lut_find_steps(&t.kernel, t.dense, &t.steps));
        assert_int_equal(t.steps.of_v, bn[i] > 1);
        assert_cmp(t.steps.most, <=, 5);
        assert_true(t.steps.falls);
    }
}

// A slope so small that the output still changes beyond what floats hold.
static void what_never_saturates_has_no_bounds(void **state)
{
    struct graph_lut lut = {
        .slope = {0, 1}, .slope_shift = {0, 20}, .out_factor = 0x4000, .out_shift = 14};
    int32_t bounds[2];
    (void)state;
    assert_false(lut_find_bounds(&lut, LUT_MAX_V, bounds));
    lut.slope_shift[1] = 4;
    assert_true(lut_find_bounds(&lut, LUT_MAX_V, bounds));
    assert_int_equal(bounds[0], -LUT_REACH);
    assert_int_equal(bounds[1], LUT_REACH + 127 * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tables),
        cmocka_unit_test(smooth_tables_are_lines),
        cmocka_unit_test(smooth_tables_have_few_steps),
        cmocka_unit_test(what_never_saturates_has_no_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
