// examples/digits on the software NPU: every committed picture is recognised, and the int8 outputs
// are those of the numpy reference.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <png.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/support/sim_run.h"

#define SIDE      8
#define CLASSES   10
#define PER_CLASS 2

static void read_picture(const char *path, uint8_t pixels[SIDE * SIDE])
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_file(&image, path));
    assert_int_equal(image.width, SIDE);
    assert_int_equal(image.height, SIDE);
    image.format = PNG_FORMAT_GRAY;
    assert_true(png_image_finish_read(&image, NULL, pixels, SIDE, NULL));
}

static void check_picture(struct sim_run *s, unsigned digit, unsigned number,
                          const int8_t expected[CLASSES])
{
    char path[512];
    uint8_t pixels[SIDE * SIDE];
    int8_t scores[CLASSES];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/pictures/%u_%u.png", DIGITS_DIR, digit, number);
    read_picture(path, pixels);
    struct npu_input input = {
        .data = pixels, .size = sizeof pixels, .type = TENSOR_UINT8, .layout = TENSOR_NHWC};
    struct npu_output output = {.data = scores, .size = sizeof scores};
    if (sim_run_once(s, &input, &output, &e) < 0)
        fail_msg("%s", e.text);
    unsigned best = 0;
    for (unsigned i = 0; i < CLASSES; i++) {
        assert_in_range(scores[i] - expected[i] + 1, 0, 2);
        best = scores[i] > scores[best] ? i : best;
    }
    assert_int_equal(best, digit);
}

static void every_picture(void **state)
{
    (void)state;
    struct error e = {0};
    size_t size;
    cleanup(free_p) uint8_t *expected = sim_read_file(EXPECTED_FILE, &size, &e);
    if (!expected)
        fail_msg("%s", e.text);
    assert_int_equal(size, CLASSES * PER_CLASS * CLASSES);
    struct sim_run s;
    if (sim_run_init(&s, DIGITS_DIR "/digits.rknn", &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(s.info->n_inputs, 1);
    assert_int_equal(s.info->inputs[0].logical.size, SIDE * SIDE);
    assert_int_equal(s.info->outputs[0].logical.n_elems, CLASSES);
    for (unsigned digit = 0; digit < CLASSES; digit++)
        for (unsigned k = 0; k < PER_CLASS; k++)
            check_picture(&s, digit, k,
                          (const int8_t *)expected + (digit * PER_CLASS + k) * CLASSES);
    sim_run_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_picture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
