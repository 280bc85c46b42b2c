// Looks at tensors, whole or while they are written: bounds, sums, chosen values and tails are
// those that the rules say (tensor/observe/sampling.h), found here value by value.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/ops/observe/observe_look.h"
#include "tests/support/seed.h"

#define MOST   60000 // values
#define ROUNDS 2000
#define GUARD  64 // bytes behind memory, which stay

enum kind { MIXED, POSITIVE, NEGATIVE, RELU, ONE_NUMBER, FAR_OUT, TINY, N_KINDS };

static float x[MOST];
static char *room;

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

static float one_value(enum kind kind)
{
    float v = (float)(rand() - RAND_MAX / 2) / (float)RAND_MAX + (float)below(1000) / 1e4F;
    switch (kind) {
    case POSITIVE:
        return fabsf(v) + 0.01F;
    case NEGATIVE:
        return -fabsf(v) - 0.01F;
    case RELU:
        return v > 0 ? v : 0;
    case ONE_NUMBER:
        return -3;
    case FAR_OUT:
        return below(500) ? v : v * 100;
    case TINY:
        return v * 1e-30F;
    default:
        return v;
    }
}

// Any shape: a vector of values, pixels with their channels, or planes.
static struct observe_shape any_shape(void)
{
    struct observe_shape s = {.tails = below(2), .inner = 1};
    uint32_t form = below(3);
    if (form) {
        s.n_channels = below(4) ? 1 + below(200) : 1 + below(1500);
        uint64_t most = MOST / s.n_channels, pixels = 1 + below(below(3) ? 200 : (uint32_t)most);
        pixels = pixels > most ? most : pixels;
        s.inner = form == 2 ? pixels : 1;
        s.layout.n = pixels * s.n_channels;
    } else {
        s.layout.n = 1 + below(below(3) ? 5000 : MOST);
    }
    s.layout.stride = s.tails || below(4) ? sampling_stride(s.layout.n, 1 + below(300)) : 0;
    sampling_lay(&s.layout, s.n_channels, s.inner);
    return s;
}

static int compare_floats(const void *a, const void *b)
{
    float l = *(const float *)a, r = *(const float *)b;
    return (l > r) - (l < r);
}

static void check_tails(const struct observe_shape *s, const struct sampling_tails *seen,
                        float least, float most)
{
    float values[256];
    struct sampling_tails t;
    sampling_tails_begin(&t, s->layout.n, least, most, values);
    sampling_tails_add(&t, x, s->layout.n);
    for (uint32_t side = 0; side < 2; side++) {
        float *own = values + side * t.most, *found = seen->values + side * seen->most;
        assert_int_equal(t.n[side], seen->n[side]);
        assert_int_equal(t.level[side], seen->level[side]);
        qsort(own, t.n[side], sizeof *own, compare_floats);
        qsort(found, t.n[side], sizeof *found, compare_floats);
        assert_memory_equal(own, found, t.n[side] * sizeof *own);
    }
}

static void check_sums(const struct observe_shape *s, const double *sums)
{
    for (uint32_t c = 0; c < s->n_channels; c++) {
        double sum = 0, size = 0;
        for (uint64_t i = 0; i < s->layout.n / s->n_channels; i++) {
            double v = x[s->inner == 1 ? i * s->n_channels + c : c * s->inner + i];
            sum += v;
            size += fabs(v);
        }
        assert_true(fabs(sum - sums[c]) <= 1e-5 * size + 1e-40);
    }
}

static void look(const struct observe_shape *s, struct observed *o)
{
    memset(room + observe_room(s->layout.n), 0x5a, GUARD);
    observe_begin(s, x, room, o);
    uint64_t next = 0;
    for (uint64_t n = 0; n < s->layout.n && below(8);) {
        n += 1 + below(4000);
        n = n > s->layout.n ? s->layout.n : n;
        if (n >= next)
            next = observe_go_on(room, n);
    }
    observe_end(room, o);
    for (uint32_t i = 0; i < GUARD; i++)
        assert_int_equal(room[observe_room(s->layout.n) + i], 0x5a);
}

static void test_any_tensor(void **state)
{
    static double sums[2000];
    static float values[MOST + 1], picked[MOST], tails[256];
    SEED_EACH (seed, ROUNDS) {
        srand((unsigned)seed);
        const struct observe_shape s = any_shape();
        enum kind kind = (enum kind)below(N_KINDS);
        float least = INFINITY, most = -INFINITY;
        for (uint64_t i = 0; i < s.layout.n; i++) {
            x[i] = one_value(kind);
            least = x[i] < least ? x[i] : least;
            most = x[i] > most ? x[i] : most;
        }
        struct observed o = {.sums = sums, .values = values, .tails = {.values = tails}};
        look(&s, &o);
        assert_int_equal(o.bounds.n_bad, 0);
        assert_true(o.bounds.min == least && o.bounds.max == most);
        check_sums(&s, sums);
        if (!s.layout.stride)
            continue;
        sampling_pick_all(x, &s.layout, picked);
        assert_memory_equal(picked, values,
                            sampling_count(s.layout.n, s.layout.stride) * sizeof *picked);
        if (s.tails)
            check_tails(&s, &o.tails, least, most);
    }
    (void)state;
}

static void test_values_that_are_no_numbers(void **state)
{
    static double sums[2000];
    static float values[MOST + 1], tails[256];
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    SEED_EACH (seed, ROUNDS) {
        srand((unsigned)seed);
        const struct observe_shape s = any_shape();
        enum kind kind = (enum kind)below(N_KINDS);
        for (uint64_t i = 0; i < s.layout.n; i++)
            x[i] = one_value(kind);
        x[below(2) ? s.layout.n - 1 : s.layout.n / 2] = bad[below(4)];
        struct observed o = {.sums = sums, .values = values, .tails = {.values = tails}};
        look(&s, &o);
        assert_int_equal(o.bounds.n_bad, 1);
    }
    (void)state;
}

int main(void)
{
    room = aligned_alloc(64, (observe_room(MOST) + GUARD + 63) / 64 * 64);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_tensor),
        cmocka_unit_test(test_values_that_are_no_numbers),
    };
    int failed = room ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    free(room);
    return failed;
}
