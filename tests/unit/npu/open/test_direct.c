// Inputs and outputs in dma-bufs of programs, on the emulator: what is left there gives what a copy
// gives, nothing beside it is touched, and what is copied has a reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "npu/open/direct/direct_form.h"
#include "tests/support/sim_support.h"
#include "tests/unit/npu/open/direct_case.h"

static void check_counts(const char *options, const char *path, struct direct_counts wanted)
{
    struct error e = {0};
    struct direct_counts found = {0};
    if (direct_case_run(options, path, &found, &e) < 0)
        fail_msg("%s: %s", path, e.text);
    assert_int_equal(found.inputs, wanted.inputs);
    assert_int_equal(found.outputs, wanted.outputs);
    assert_int_equal(found.pixels, wanted.pixels);
}

static void digits(void **state)
{
    (void)state;
    check_counts("emu:rk3588,others", PROJECT_ROOT "/examples/digits/digits.rknn",
                 (struct direct_counts){.inputs = 1, .pixels = 1});
}

// Pixels in every generation's form, blocks of channels, files whose outputs go on behind their end
// (RK3588, RK3566) or are transposed (RK3562).
static void shared_files(void **state)
{
    static const struct {
        const char *chip, *name;
        struct direct_counts wanted;
    } files[] = {
        {"rk3588", "multiple_input_demo.rk3588.rknn", {.inputs = 2, .pixels = 2}},
        {"rk3576", "multiple_input_demo.rk3576.rknn", {.inputs = 2, .outputs = 1, .pixels = 2}},
        {"rk3566", "multiple_input_demo.rk3566_rk3568.rknn", {.inputs = 2, .pixels = 2}},
        {"rk3562", "multiple_input_demo.rk3562.rknn", {.inputs = 2, .pixels = 2}},
        {"rv1126b", "multiple_input_demo.rv1126b.rknn", {.inputs = 1, .outputs = 1, .pixels = 1}},
        {"rk3576", "conv2d.rk3576.rknn", {.inputs = 1, .outputs = 1}},
        {"rk3588", "test_conv_c16.rk3588.rknn", {.inputs = 1, .outputs = 1}},
    };
    const char *folder = sim_shared_folder();
    (void)state;
    if (!folder)
        skip();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char options[32], path[512];
        snprintf(options, sizeof options, "emu:%s,others", files[i].chip);
        snprintf(path, sizeof path, "%s/models/rknn/%s", folder, files[i].name);
        check_counts(options, path, files[i].wanted);
    }
}

// Three channels of a picture, stored from -128 on.
static struct open_port port_of_pixels(const uint8_t order[3])
{
    struct tensor_io io = {
        .logical = {.n_dims = 4,
                    .dims = {1, 2, 2, 3},
                    .n_elems = 12,
                    .size = 12,
                    .size_with_stride = 12,
                    .zp = -128,
                    .scale = 1,
                    .type = TENSOR_INT8,
                    .layout = TENSOR_NHWC,
                    .qnt = TENSOR_QNT_AFFINE},
        .preprocess = {.n_channels = 3, .std = {1, 1, 1}, .order = {order[0], order[1], order[2]}}};
    struct open_port port = {.layout = {.element = 1}};
    direct_form_values(&port, &io);
    return port;
}

// rgb2bgr: each value is stored as all others are, at another place.
static void swapped_channels(void **state)
{
    (void)state;
    struct open_port port = port_of_pixels((const uint8_t[]){0, 1, 2});
    assert_true(port.same_flipped[TENSOR_UINT8]);
    port = port_of_pixels((const uint8_t[]){2, 1, 0});
    assert_false(port.same[TENSOR_UINT8] || port.same_flipped[TENSOR_UINT8]);
    assert_false(port.same[TENSOR_INT8] || port.same_flipped[TENSOR_INT8]);
}

int main(int n, char **words)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digits), cmocka_unit_test(shared_files),
                                       cmocka_unit_test(swapped_channels)};
    if (n > 2) { // by hand: CHIP FILE…, or CHIP uint8 FILE…
        bool pixels = strcmp(words[2], "uint8") == 0;
        for (int i = 2 + pixels; i < n; i++) {
            struct error e = {0};
            struct direct_counts c = {.print = true, .only_pixels = pixels};
            char options[64];
            snprintf(options, sizeof options, "emu:%s", words[1]);
            printf("%s\n", words[i]);
            if (direct_case_run(options, words[i], &c, &e) < 0)
                printf("  FAILED: %s\n", e.text);
        }
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
