// Pictures in another size: the right numbers, in the right place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tools/image/image_fit.h"

static const uint8_t gray_114[3] = {114, 114, 114};

static struct image make(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image i = {.width = width, .height = height, .channels = channels};
    i.pixels = malloc((size_t)width * height * channels);
    assert_non_null(i.pixels);
    uint32_t state = width * 31 + height;
    for (size_t k = 0; k < (size_t)width * height * channels; k++) {
        state = state * 1664525 + 1013904223;
        i.pixels[k] = (uint8_t)(state >> 24);
    }
    return i;
}

static double triangle(double x)
{
    return fmax(0, 1 - fabs(x));
}

// One output value by the definition: all pixels of the picture, in two dimensions at once, each
// weighed by a triangle as wide as an output pixel, and at least as an input pixel.
static double by_definition(const struct image *i, const struct resample_window *w, uint32_t width,
                            uint32_t height, uint32_t x, uint32_t y, uint32_t channel)
{
    double sum = 0, weights = 0;
    double across = w->width / width, down = w->height / height;
    for (uint32_t v = 0; v < i->height; v++)
        for (uint32_t u = 0; u < i->width; u++) {
            double dx = u + 0.5 - (w->x + (x + 0.5) * across);
            double dy = v + 0.5 - (w->y + (y + 0.5) * down);
            double weight = triangle(dx / fmax(across, 1)) * triangle(dy / fmax(down, 1));
            sum += weight * i->pixels[((size_t)v * i->width + u) * i->channels + channel];
            weights += weight;
        }
    return sum / weights;
}

static void check_window(const struct image *i, const struct resample_window *w, uint32_t width,
                         uint32_t height)
{
    struct error e = {0};
    uint8_t *got = malloc((size_t)width * height * i->channels);
    assert_non_null(got);
    assert_int_equal(resample(i, w, got, width * i->channels, width, height, &e), 0);
    for (uint32_t k = 0; k < width * height * i->channels; k++) {
        uint32_t c = k % i->channels, x = k / i->channels % width, y = k / i->channels / width;
        double want = by_definition(i, w, width, height, x, y, c);
        if (fabs(got[k] - want) > 0.51)
            fail_msg("%ux%u to %ux%u at %u,%u: %u, not %g", i->width, i->height, width, height, x,
                     y, got[k], want);
    }
    free(got);
}

static void numbers_are_those_of_the_definition(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1},   {2, 3},  {7, 5},   {16, 16},
                                        {33, 20}, {40, 1}, {1, 100}, {61, 47}};
    for (size_t from = 0; from < sizeof sizes / sizeof *sizes; from++)
        for (size_t to = 0; to < sizeof sizes / sizeof *sizes; to++)
            for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
                struct image i = make(sizes[from][0], sizes[from][1], channels);
                const struct resample_window all = {0, 0, i.width, i.height};
                const struct resample_window part = {i.width / 5.0, i.height / 7.0, i.width / 2.0,
                                                     i.height * 0.75};
                check_window(&i, &all, sizes[to][0], sizes[to][1]);
                check_window(&i, &part, sizes[to][0], sizes[to][1]);
                image_done(&i);
            }
}

// Where pixels are left out instead of averaged, these stripes become black, white or wide stripes.
static void fine_stripes_become_gray(void **state)
{
    (void)state;
    struct error e = {0};
    uint8_t small[40 * 30];
    struct image i = make(4000, 3000, 1);
    for (size_t k = 0; k < (size_t)4000 * 3000; k++)
        i.pixels[k] = (k % 4000 + k / 4000) % 2 ? 255 : 0;
    const struct resample_window all = {0, 0, 4000, 3000};
    assert_int_equal(resample(&i, &all, small, 40, 40, 30, &e), 0);
    for (size_t k = 0; k < sizeof small; k++)
        assert_in_range(small[k], 126, 129);
    image_done(&i);
}

struct placed {
    uint8_t pixels[64 * 64 * 4];
    struct image_fitted fitted;
};

static void place(const struct image *i, enum image_fit fit, uint32_t width, uint32_t height,
                  struct placed *ret)
{
    struct error e = {0};
    memset(ret->pixels, 0xee, sizeof ret->pixels);
    assert_int_equal(image_place(i, fit, gray_114, width, height, ret->pixels, &ret->fitted, &e),
                     0);
    assert_int_equal(ret->pixels[(size_t)width * height * i->channels], 0xee);
}

// A picture of one colour: what it covers shows where it is.
static void check_box(uint32_t from_width, uint32_t from_height, uint32_t width, uint32_t height,
                      const uint32_t box[4])
{
    static struct placed p;
    struct image i = make(from_width, from_height, 3);
    memset(i.pixels, 7, (size_t)from_width * from_height * 3);
    place(&i, IMAGE_LETTERBOX, width, height, &p);
    assert_int_equal(p.fitted.left, box[0]);
    assert_int_equal(p.fitted.top, box[1]);
    assert_int_equal(p.fitted.fitted_width, box[2]);
    assert_int_equal(p.fitted.fitted_height, box[3]);
    for (uint32_t k = 0; k < width * height * 3; k++) {
        uint32_t x = k / 3 % width, y = k / 3 / width;
        bool inside = x >= box[0] && x < box[0] + box[2] && y >= box[1] && y < box[1] + box[3];
        assert_int_equal(p.pixels[k], inside ? 7 : 114);
    }
    image_done(&i);
}

static void letterbox_keeps_proportions_in_the_middle(void **state)
{
    (void)state;
    check_box(128, 64, 32, 32, (const uint32_t[]){0, 8, 32, 16});
    check_box(64, 128, 32, 32, (const uint32_t[]){8, 0, 16, 32});
    check_box(16, 8, 64, 64, (const uint32_t[]){0, 16, 64, 32}); // small ones grow
    check_box(100, 75, 32, 32, (const uint32_t[]){0, 4, 32, 24});
    check_box(32, 31, 64, 40, (const uint32_t[]){11, 0, 41, 40}); // the odd column is on the right
    check_box(64, 1, 10, 10, (const uint32_t[]){0, 4, 10, 1});    // never less than a row
    check_box(1, 1, 20, 10, (const uint32_t[]){5, 0, 10, 10});
}

static void alpha_of_the_border_is_opaque(void **state)
{
    (void)state;
    static struct placed p;
    struct image i = make(8, 4, 4);
    place(&i, IMAGE_LETTERBOX, 8, 8, &p);
    assert_memory_equal(p.pixels, "rrr\xff", 4); // 114 is r
    assert_memory_equal(p.pixels + 2 * 8 * 4, i.pixels, 8 * 4 * 4);
    image_done(&i);
}

static void crop_takes_the_middle(void **state)
{
    (void)state;
    static struct placed p;
    struct image wide = make(20, 8, 3), high = make(6, 13, 1);
    place(&wide, IMAGE_CROP, 8, 8, &p);
    for (uint32_t y = 0; y < 8; y++)
        assert_memory_equal(p.pixels + (size_t)y * 8 * 3, wide.pixels + ((size_t)y * 20 + 6) * 3,
                            (size_t)8 * 3);
    place(&high, IMAGE_CROP, 6, 7, &p);
    assert_memory_equal(p.pixels, high.pixels + (size_t)3 * 6, (size_t)7 * 6);
    assert_cmp(p.fitted.window.y, ==, 3);
    assert_cmp(p.fitted.window.height, ==, 7);
    image_done(&wide);
    image_done(&high);
}

static void stretch_takes_all_of_it(void **state)
{
    (void)state;
    static struct placed p;
    struct image i = make(2, 1, 1);
    memcpy(i.pixels, "\x10\xf0", 2);
    place(&i, IMAGE_STRETCH, 2, 3, &p);
    assert_memory_equal(p.pixels, "\x10\xf0\x10\xf0\x10\xf0", 6);
    image_done(&i);
}

static void the_right_size_is_left_alone(void **state)
{
    (void)state;
    static struct placed p;
    struct image i = make(9, 11, 3);
    for (enum image_fit fit = IMAGE_FIT_EXACT; fit <= IMAGE_CROP; fit++) {
        place(&i, fit, 9, 11, &p);
        assert_memory_equal(p.pixels, i.pixels, (size_t)9 * 11 * 3);
        assert_int_equal(p.fitted.fit, IMAGE_FIT_EXACT);
    }
    image_done(&i);
}

static void another_size_is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct error e = {0};
    struct image_fitted fitted = {.width = 5};
    uint8_t pixels[12 * 3];
    struct image i = make(6, 4, 3);
    assert_int_equal(image_place(&i, IMAGE_FIT_EXACT, gray_114, 4, 3, pixels, &fitted, &e),
                     STATUS_INPUT_INVALID);
    assert_non_null(strstr(e.text, "6x4"));
    assert_non_null(strstr(e.text, "4x3"));
    assert_non_null(strstr(e.text, "--fit letterbox"));
    assert_int_equal(fitted.width, 5);
    image_done(&i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_definition),
        cmocka_unit_test(fine_stripes_become_gray),
        cmocka_unit_test(letterbox_keeps_proportions_in_the_middle),
        cmocka_unit_test(alpha_of_the_border_is_opaque),
        cmocka_unit_test(crop_takes_the_middle),
        cmocka_unit_test(stretch_takes_all_of_it),
        cmocka_unit_test(the_right_size_is_left_alone),
        cmocka_unit_test(another_size_is_refused_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
