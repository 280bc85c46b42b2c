// Arithmetic on rows of 8-bit numbers at once, against what rows of real numbers give; and some
// activations of floats.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/sim/ops/quotient.h"
#include "npu/sim/simd/binary/int8_binary.h"
#include "npu/sim/simd/binary/int8_pairs.h"
#include "npu/sim/simd/int8.h"
#include "tests/support/seed.h"

#define CASES 3000
#define MOST  100

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(rand() % (high - low + 1));
}

// Powers of two make ties.
static struct element_form any_form(void)
{
    static const float scales[] = {1, 0.5f, 0.25f, 0.037f, 0.0071f, 3.3f};
    struct element_form f = {.type = TENSOR_INT8, .quantized = between(0, 9) > 0};
    f.scale = f.quantized ? scales[between(0, 5)] : 0;
    f.zp = f.quantized ? between(-128, 127) : 0;
    f.odd = f.quantized && between(0, 1) ? f.zp & 1 : 0;
    return f;
}

static size_t any_posts(struct graph_post *post)
{
    *post = (struct graph_post){
        .kind = between(0, 1) ? POST_RELU : POST_CLIP, .alpha = -1.5f, .beta = 6};
    return (size_t)between(0, 1);
}

static float count(enum graph_op op, float a, float b)
{
    return op == GRAPH_ADD ? a + b : op == GRAPH_SUB ? a - b : a * b;
}

static void against_rows(void **state)
{
    static const enum graph_op ops[] = {GRAPH_ADD, GRAPH_SUB, GRAPH_MUL};
    (void)state;
    if (!kernel_has_avx2())
        skip();
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        struct element_form forms[] = {any_form(), any_form(), any_form()};
        int8_t a[MOST], b[MOST], got[MOST + 1], want[MOST];
        float v[MOST], w[MOST];
        struct graph_post post;
        struct clamp_bounds bounds;
        size_t n = (size_t)between(1, MOST), n_posts = any_posts(&post);
        enum graph_op op = ops[between(0, 2)];
        for (size_t k = 0; k < n; k++) {
            a[k] = (int8_t)between(-128, 127);
            b[k] = (int8_t)between(-128, 127);
        }
        elements_load(&forms[0], a, n, v);
        elements_load(&forms[1], b, n, w);
        for (size_t k = 0; k < n; k++)
            v[k] = count(op, v[k], w[k]);
        if (n_posts)
            elements_post(&post, v, n);
        elements_store(&forms[2], want, n, v);
        assert_true(clamp_bounds(&post, (uint32_t)n_posts, &bounds));
        got[n] = 77;
        int8_binary(op, forms, a, b, n, bounds, got);
        assert_memory_equal(got, want, n);
        assert_int_equal(got[n], 77);
        int8_binary(op, forms, a, b, n, bounds, b); // in place
        assert_memory_equal(b, want, n);
    }
}

// With constants, which are floats: op b, b op, and * factor + term, rounded once.
static void with_floats_against_rows(void **state)
{
    static const enum graph_op ops[] = {GRAPH_ADD, GRAPH_SUB, GRAPH_MUL};
    (void)state;
    if (!kernel_has_avx2())
        skip();
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        struct element_form forms[] = {any_form(), any_form()};
        int8_t x[MOST], got[MOST + 1], want[MOST];
        float v[MOST], b[MOST], term[MOST];
        struct graph_post post;
        struct clamp_bounds bounds;
        size_t n = (size_t)between(1, MOST), n_posts = any_posts(&post);
        enum graph_op op = ops[between(0, 2)];
        bool scale = between(0, 1), swapped = between(0, 1);
        for (size_t k = 0; k < n; k++) {
            x[k] = (int8_t)between(-128, 127);
            b[k] = (float)between(-1000, 1000) / 128;
            term[k] = (float)between(-1000, 1000) / 61;
        }
        elements_load(&forms[0], x, n, v);
        for (size_t k = 0; k < n; k++)
            v[k] = scale     ? fmaf(v[k], b[k], term[k])
                   : swapped ? count(op, b[k], v[k])
                             : count(op, v[k], b[k]);
        if (n_posts)
            elements_post(&post, v, n);
        elements_store(&forms[1], want, n, v);
        assert_true(clamp_bounds(&post, (uint32_t)n_posts, &bounds));
        got[n] = 77;
        if (scale)
            int8_scale(forms, x, b, term, n, bounds, got);
        else
            int8_with_floats(op, forms, x, b, swapped, n, bounds, got);
        assert_memory_equal(got, want, n);
        assert_int_equal(got[n], 77);
    }
}

// ---- sums as the chips round them ----

// x * factor / 2^shift to the nearest integer, ties to even.
static int64_t scaled(int64_t x, struct graph_scaling s)
{
    int64_t product = x * s.factor, whole = product >> s.shift;
    int64_t twice = 2 * (product - whole * (INT64_C(1) << s.shift)), one = INT64_C(1) << s.shift;
    return whole + (twice > one || (twice == one && (whole & 1)));
}

static int8_t expected_sum(const struct graph_sum *sum, int8_t low, int8_t a, int8_t b)
{
    int64_t v = scaled(a + sum->offset[0], sum->operand[0]);
    int64_t w = scaled(b + sum->offset[1], sum->operand[1]);
    v = sum->product ? v * w : v + w;
    v = scaled(v * sum->out.factor + sum->zp * (INT64_C(1) << sum->out.shift),
               (struct graph_scaling){1, sum->out.shift});
    return (int8_t)(v < low ? low : v > 127 ? 127 : v);
}

// All pairs of numbers. Equal factors, which are powers of two, make ties of every second one.
static void sums_of_all_pairs(void **state)
{
    (void)state;
    static const struct graph_sum sums[] = {
        {false, {128, 17}, {{16384, 0}, {17176, 1}}, {31695, 29}, -72},
        {false, {0, 0}, {{16384, 0}, {16384, 0}}, {16384, 29}, 1},
        {false, {-5, 90}, {{17581, 1}, {32110, 0}}, {20000, 28}, 127},
        {false, {3, -3}, {{1, 1}, {1, 1}}, {1, 1}, -1},
        {true, {128, 128}, {{1, 0}, {1, 0}}, {16631, 22}, -128},
        {true, {5, -3}, {{1, 0}, {1, 0}}, {1, 3}, 7},
        {true, {-90, 1}, {{1, 0}, {3, 1}}, {31999, 20}, -1},
        {true, {7, -20}, {{5, 2}, {1, 0}}, {32001, 21}, 4},
        {true, {-1, 60}, {{7, 2}, {3, 1}}, {30001, 22}, 0},
        {true, {100, -100}, {{1, 0}, {1, 0}}, {3, 1}, 5}, // these two beyond 16 bits
        {false, {128, -128}, {{30000, 3}, {16384, 0}}, {1, 2}, 0},
    };
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        int8_t low = i % 2 ? (int8_t)sums[i].zp : -128;
        assert_true(int8_sum_fits(&sums[i]));
        for (int a = -128; a < 128; a++) {
            int8_t first[256], second[256];
            for (int b = 0; b < 256; b++) {
                first[b] = (int8_t)a;
                second[b] = (int8_t)(b - 128);
            }
            int8_sum(&sums[i], low, first, second, 200, first); // in place, vectors and a rest
            int8_sum(&sums[i], low, first + 200, second + 200, 56, first + 200);
            for (int b = 0; b < 256; b++)
                assert_int_equal(first[b], expected_sum(&sums[i], low, (int8_t)a, second[b]));
        }
    }
}

// What is taken for a line gives the same for all pairs. Factors of real files are integers or
// halves of them; where one is rounded, or what it is multiplied by overflows, there is none.
static void sums_as_lines(void **state)
{
    (void)state;
    static const struct {
        struct graph_sum sum;
        bool line;
    } sums[] = {
        {{false, {-11, -16}, {{16384, 0}, {32204, 1}}, {30130, 29}, 6}, true},
        {{false, {-55, -52}, {{16384, 0}, {20456, 1}}, {26246, 29}, 52}, true},
        {{false, {0, 0}, {{16384, 0}, {16384, 0}}, {16384, 29}, 1}, true},     // ties
        {{false, {2, -30}, {{28053, 1}, {16384, 0}}, {28048, 29}, 16}, false}, // for some pairs
        {{false, {-128, 127}, {{32767, 0}, {32768, 0}}, {31000, 30}, -128}, true},
        {{false, {3, -3}, {{1, 1}, {1, 1}}, {1, 1}, -1}, false},
        {{true, {128, 128}, {{1, 0}, {1, 0}}, {16631, 22}, -128}, false},
    };
    if (!kernel_has_avx2())
        skip();
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        int8_t low = i % 2 ? (int8_t)sums[i].sum.zp : -128;
        struct int8_pairs pairs;
        assert_int_equal(int8_pairs_find(&sums[i].sum, low, &pairs), sums[i].line);
        for (int a = -128; a < 128 && sums[i].line; a++) {
            int8_t first[300], second[300];
            for (int b = 0; b < 300; b++) {
                first[b] = (int8_t)a;
                second[b] = (int8_t)(b - 128);
            }
            size_t done = int8_pairs_sum(&pairs, first, second, 300, first); // in place
            assert_int_equal(done, kernel_has_avx512() ? 256 : 288);
            for (int b = 0; b < 256; b++)
                assert_int_equal(first[b], expected_sum(&sums[i].sum, low, (int8_t)a, second[b]));
            for (int b = (int)done; b < 300; b++)
                assert_int_equal(first[b], a);
        }
    }
}

// Each byte by factors and terms of channels, some of which make ties.
static void scaled_bytes(void **state)
{
    (void)state;
    static const struct graph_scaling outs[] = {{1, 1}, {23319, 27}, {18192, 26}, {3, 2}};
    static const int32_t factors[] = {1, -1, 3, 32767, -32768, 17}, zps[] = {-128, 0, 1, 127};
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
        for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
            int32_t zp = zps[i], term = (int32_t)(k * 123457) - 300001, low = k % 2 ? zp : -128;
            float factor[256], terms[256];
            int8_t x[256], y[256];
            for (int b = 0; b < 256; b++) {
                x[b] = (int8_t)b;
                factor[b] = (float)factors[k];
                terms[b] = (float)term;
            }
            assert_true(int8_scale_exact_fits(factors[k], term, outs[i]));
            memcpy(y, x, sizeof y); // in place, vectors and a rest
            int8_scale_exact(y, factor, terms, 250, outs[i], low, zp, y);
            int8_scale_exact(x + 250, factor, terms, 6, outs[i], low, zp, y + 250);
            for (int b = 0; b < 256; b++) {
                int64_t v = ((int64_t)x[b] * factors[k] + term) * outs[i].factor;
                v = scaled(v + zp * (INT64_C(1) << outs[i].shift),
                           (struct graph_scaling){1, outs[i].shift});
                assert_int_equal(y[b], v < low ? low : v > 127 ? 127 : v);
            }
        }
    assert_false(int8_scale_exact_fits(32767, 1 << 24, outs[0]));
}

// ---- activations whose series are our own, against libm's doubles ----

static double real_mish(double x)
{
    return x * tanh(log1p(exp(x)));
}

static double real_softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double real_gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752);
}

// Of a GELU far below 0 what counts is how large it is beside x: 1 + erf() has lost the digits.
static void series_are_near(void **state)
{
    static const struct {
        enum graph_post_kind kind;
        double (*real)(double x);
        double relative, of_x; // errors
    } rows[] = {{POST_ERF, erf, 0x1p-22, 0},
                {POST_SOFTPLUS, real_softplus, 0x1p-21, 0},
                {POST_MISH, real_mish, 0x1p-21, 0},
                {POST_GELU, real_gelu, 0x1p-21, 0x1p-23}};
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct graph_post post = {.kind = rows[k].kind};
        float v[MOST];
        for (int step = 0; step < 216; step++) {
            float first = -40 + (float)step * 0.37f;
            for (int i = 0; i < MOST; i++)
                v[i] = first + (float)i * 0.0037f;
            elements_post(&post, v, MOST);
            for (int i = 0; i < MOST; i++) {
                double x = first + (float)i * 0.0037f, want = rows[k].real(x);
                double error = fabs(want) * rows[k].relative + fabs(x) * rows[k].of_x + 0x1p-120;
                assert_cmp(fabs(v[i] - want), <=, error);
            }
        }
        float ends[] = {INFINITY, NAN, 0, -0.0f};
        elements_post(&post, ends, 4);
        assert_true(rows[k].kind == POST_ERF ? ends[0] >= 1 && ends[0] <= 1 : isinf(ends[0]));
        assert_true(isnan(ends[1]));
        assert_true(rows[k].kind == POST_SOFTPLUS || (ends[2] >= 0 && ends[2] <= 0));
    }
}

// ---- quotients by multiplication ----

KERNEL(void, multiply_all, (const float *x, float by, size_t n, float *y), (x, by, n, y))
{
    float inverse = 1 / by;
    for (size_t i = 0; i < n; i++)
        y[i] = quotient(x[i], by, inverse);
}

// Near the middles of two steps, where one unit in the last place rounds another way.
static float any_dividend(float by)
{
    float x = by * ((float)between(-300, 300) + 0.5f);
    return between(0, 3) ? bits_float(float_bits(x) + (uint32_t)between(0, 6) - 3)
                         : by * (float)rand() / (float)between(1, INT16_MAX);
}

static void quotients_are_rounded_once(void **state)
{
    (void)state;
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        float by = ldexpf(1 + (float)between(0, 0x7fffff) * 0x1p-23f, between(-40, 39));
        float x[MOST], y[MOST];
        for (int i = 0; i < MOST; i++)
            x[i] = any_dividend(by);
        x[0] = INFINITY;
        multiply_all(x, by, MOST, y);
        for (int i = 0; i < MOST; i++) {
            volatile float want = x[i] / by;
            assert_int_equal(float_bits(y[i]), float_bits(want));
        }
    }
}

#define MOST_MAPPED 700

// Every byte at every place of a vector, whatever the table; also in place.
static void maps_by_any_table(void **state)
{
    (void)state;
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        int8_t table[256], x[MOST_MAPPED], y[MOST_MAPPED + 1];
        size_t n = (size_t)between(1, MOST_MAPPED);
        int low = between(-128, 127), high = between(low, 127);
        bool bounds = seed % 2; // a table that only bounds, but for one number or none
        for (int i = 0; i < (int)sizeof table; i++) {
            int stored = (int8_t)i;
            stored = stored < low ? low : stored > high ? high : stored;
            table[i] = (int8_t)(bounds ? stored : between(-128, 127));
        }
        if (seed % 4 == 1)
            table[between(0, 255)] = (int8_t)between(-128, 127);
        for (size_t i = 0; i < n; i++)
            x[i] = (int8_t)between(-128, 127);
        y[n] = 77;
        int8_map(table, x, n, y);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(y[i], table[x[i] < 0 ? x[i] + 256 : x[i]]);
        assert_int_equal(y[n], 77);
        int8_map(table, x, n, x);
        assert_memory_equal(x, y, n);
    }
}

// Of many numbers, so that vectors do it: a lower bound takes the place of NaN, -INFINITY is none.
static void clips_of_what_is_no_number(void **state)
{
    (void)state;
    for (int bounded = 0; bounded < 2; bounded++) {
        const struct graph_post clip = {
            .kind = POST_CLIP, .alpha = bounded ? -1 : -INFINITY, .beta = 2};
        float x[MOST];
        for (int i = 0; i < MOST; i++)
            x[i] = i % 4 == 0 ? NAN : i % 4 == 1 ? -INFINITY : i % 4 == 2 ? INFINITY : .5f;
        elements_post(&clip, x, MOST);
        for (int i = 0; i < MOST; i += 4) {
            assert_true(bounded ? x[i] <= -1 && x[i] >= -1 : isnan(x[i]));
            assert_true(bounded ? x[i + 1] >= -1 : isinf(x[i + 1]));
            assert_true(x[i + 2] >= 2 && x[i + 2] <= 2 && x[i + 3] >= .5f && x[i + 3] <= .5f);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_by_any_table),
                                       cmocka_unit_test(against_rows),
                                       cmocka_unit_test(with_floats_against_rows),
                                       cmocka_unit_test(sums_of_all_pairs),
                                       cmocka_unit_test(sums_as_lines),
                                       cmocka_unit_test(scaled_bytes),
                                       cmocka_unit_test(series_are_near),
                                       cmocka_unit_test(clips_of_what_is_no_number),
                                       cmocka_unit_test(quotients_are_rounded_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
