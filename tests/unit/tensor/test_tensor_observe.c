// What is counted of large tensors, and observations that a server sends, which may be anything.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/observe/observation.h"

static void strides_have_no_factor_of_the_size(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 3000; n += 7)
        for (uint64_t most = 1; most < 100; most += 9) {
            uint64_t k = sampling_stride(n, most), a = n, b = k;
            assert_cmp(k, >, 0);
            do {
                uint64_t rest = a % b;
                a = b;
                b = rest;
            } while (b);
            assert_cmp(a, ==, 1);
            assert_cmp(sampling_count(n, k), <=, most);
        }
    assert_cmp(sampling_stride(100, 100), ==, 1);
}

// Batches of pixels with channels, each value its own number.
static void planes_are_picked_as_pixels(void **state)
{
    (void)state;
    enum { BATCH = 3, CHANNELS = 5, PIXELS = 28, N = BATCH * CHANNELS * PIXELS };
    float pixels[N], planes[N], first[N], second[N];
    for (size_t i = 0; i < N; i++) {
        size_t c = i % CHANNELS, p = i / CHANNELS % PIXELS, b = i / CHANNELS / PIXELS;
        pixels[i] = (float)i;
        planes[(b * CHANNELS + c) * PIXELS + p] = (float)i;
    }
    for (uint64_t k = 1; k < N + 3; k++) {
        struct sampling_layout l = {.n = N, .stride = k}, turned = l;
        sampling_lay(&turned, CHANNELS, PIXELS);
        sampling_pick_all(pixels, &l, first);
        sampling_pick_all(planes, &turned, second);
        for (size_t i = 0; i < sampling_count(N, k); i++) {
            assert_cmp(first[i], ==, (float)(i * k));
            assert_cmp(second[i], ==, first[i]);
        }
    }
}

// Of 1, 2, … 1000 the longest tail with so many values that there is room for.
static void tails_are_as_long_as_there_is_room(void **state)
{
    (void)state;
    const struct {
        uint32_t room, n, level;
    } cases[] = {{800, 750, 0}, {749, 500, 1}, {499, 250, 2}, {200, 125, 3}, {124, 0, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float values[2000];
        struct sampling_tails t;
        sampling_tails_begin(&t, 1000, 1, 1000, values);
        t.most = cases[i].room;
        for (uint32_t k = 0; k < 1000; k++) // in some order
            sampling_tails_add(&t, &(float){(float)(k * 387 % 1000 + 1)}, 1);
        assert_cmp(t.n[1], ==, cases[i].n);
        assert_cmp(t.level[1], ==, cases[i].level);
        assert_cmp(t.n[0], ==, 0);
    }
}

// A tail of a level that is just full, and a value that lies in longer ones alone.
static void a_full_tail_stays(void **state)
{
    (void)state;
    float values[8];
    struct sampling_tails t;
    sampling_tails_begin(&t, 100, 0, 100, values);
    for (int i = 0; i < 6; i++)
        sampling_tails_add(&t, (const float[]){60, 70, 65, 100, 40, 30} + i, 1);
    assert_cmp(t.n[1], ==, 4);
    assert_cmp(t.level[1], ==, 1);
}

// ---- what a server sends ----

enum { VALUES = 1000, STRIDE = 7, MOST_WORDS = 4096 };

struct sent {
    int32_t words[MOST_WORDS];
    struct observation_form form;
    uint64_t n;
};

static void send(struct sent *s)
{
    double sums[2] = {3, 4};
    struct observer o = {.min = -1, .max = 2, .n = VALUES, .sums = sums};
    struct sampling_tails t;
    *s = (struct sent){0};
    s->form = observation_form_of(VALUES, 2, STRIDE, true);
    s->n = observation_words(s->form);
    assert_cmp(s->n, <=, MOST_WORDS);
    sampling_tails_begin(&t, VALUES, o.min, o.max, observation_tail_values(s->form, s->words));
    sampling_tails_add(&t, (const float[]){1.5F, 2, -0.5F}, 3);
    observation_put(s->form, &o, NULL, &t, s->words);
    for (uint32_t i = 0; i < s->form.n_values; i++)
        observation_values(s->form, s->words)[i] = (float)i / 1000;
}

static int take(const struct sent *s, struct observer *o)
{
    uint64_t taken;
    struct error e;
    assert_cmp(observer_init(o, 2, &e), ==, 0);
    int r = observation_take(o, s->words, s->n, &taken, &e);
    observer_flush(o);
    return r;
}

static void values_stand_for_others(void **state)
{
    (void)state;
    struct sent s;
    struct observer o;
    uint64_t all = 0;
    send(&s);
    assert_cmp(take(&s, &o), ==, 0);
    for (size_t i = 0; i < OBSERVER_BINS; i++)
        all += o.bins[i];
    assert_cmp(all, ==, STRIDE * s.form.n_values + 3);
    assert_cmp(o.exponent, ==, -9);                 // 2 needs a bin
    assert_cmp(o.bins[OBSERVER_SIDE + 768], ==, 1); // 1.5
    observer_done(&o);
}

// Of what was counted in the finest bins two wide ones are left.
static void values_near_zero_stay_on_their_side(void **state)
{
    (void)state;
    const float tiny[] = {-1e-40F, 0, 1e-40F, -1e-40F, 1e-33F}, five = 5;
    struct observer o;
    assert_cmp(observer_init(&o, 0, NULL), ==, 0);
    o.min = -1e-40F;
    o.max = 1e-33F;
    observer_count_now(&o, tiny, 5, 1);
    assert_cmp(o.exponent, ==, OBSERVER_FINEST);
    o.max = five;
    observer_count_now(&o, &five, 1, 7);
    assert_cmp(o.exponent, ==, -8);
    assert_cmp(o.bins[OBSERVER_SIDE - 1], ==, 2);
    assert_cmp(o.bins[OBSERVER_SIDE], ==, 3);
    assert_cmp(o.bins[OBSERVER_SIDE + 5 * 256], ==, 7);
    observer_done(&o);
}

// A server that computes with denormal floats as 0 says bounds of 0 where values are such.
static void denormal_values_are_within_bounds_of_zero(void **state)
{
    (void)state;
    const struct observation_form f = observation_form_of(3, 0, 1, false);
    const float values[] = {1e-40F, 0, -1e-40F};
    double none;
    const struct observer seen = {.n = 3, .sums = &none};
    struct observer o;
    struct error e;
    uint64_t taken;
    int32_t words[OBSERVATION_HEAD + 3];
    observation_put(f, &seen, NULL, NULL, words);
    memcpy(observation_values(f, words), values, sizeof values);
    assert_cmp(observer_init(&o, 0, &e), ==, 0);
    assert_cmp(observation_take(&o, words, OBSERVATION_HEAD + 3, &taken, &e), ==, 0);
    observer_flush(&o);
    assert_cmp(o.bins[OBSERVER_SIDE], ==, 2);
    observer_done(&o);
}

static void damage_is_refused(void **state)
{
    (void)state;
    const float wrong[] = {NAN, INFINITY, -INFINITY, 2.5F, -1.5F, FLT_MAX};
    struct sent s;
    struct observer o;
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof *wrong; i++) {
        send(&s);
        float *at = i % 2 ? observation_values(s.form, s.words) + 77
                          : observation_tail_values(s.form, s.words);
        *at = wrong[i / 2];
        assert_cmp(take(&s, &o), <, 0);
        observer_done(&o);
    }
    for (size_t i = 0; i < OBSERVATION_HEAD; i++)
        for (int32_t bit = 0; bit < 32; bit++) { // taken or refused, and nothing else is touched
            send(&s);
            s.words[i] ^= (int32_t)(1u << bit);
            take(&s, &o);
            observer_done(&o);
        }
    send(&s);
    for (s.n--; s.n; s.n--) {
        assert_cmp(take(&s, &o), <, 0);
        observer_done(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_have_no_factor_of_the_size),
        cmocka_unit_test(planes_are_picked_as_pixels),
        cmocka_unit_test(tails_are_as_long_as_there_is_room),
        cmocka_unit_test(a_full_tail_stays),
        cmocka_unit_test(values_stand_for_others),
        cmocka_unit_test(values_near_zero_stay_on_their_side),
        cmocka_unit_test(denormal_values_are_within_bounds_of_zero),
        cmocka_unit_test(damage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
