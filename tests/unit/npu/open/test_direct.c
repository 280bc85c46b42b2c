// Inputs and outputs in dma-bufs of programs, on the emulator: what is left there gives what a copy
// gives, nothing beside it is touched, and what is copied has a reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

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
}

static void digits(void **state)
{
    (void)state;
    check_counts("emu:rk3588", PROJECT_ROOT "/examples/digits/digits.rknn",
                 (struct direct_counts){.inputs = 1});
}

// Pixels in every generation's form, blocks of channels, files whose outputs go on behind their end
// (RK3588, RK3566) or are transposed (RK3562).
static void shared_files(void **state)
{
    static const struct {
        const char *chip, *name;
        struct direct_counts wanted;
    } files[] = {
        {"rk3588", "multiple_input_demo.rk3588.rknn", {.inputs = 2}},
        {"rk3576", "multiple_input_demo.rk3576.rknn", {.inputs = 2, .outputs = 1}},
        {"rk3566", "multiple_input_demo.rk3566_rk3568.rknn", {.inputs = 2}},
        {"rk3562", "multiple_input_demo.rk3562.rknn", {.inputs = 2}},
        {"rv1126b", "multiple_input_demo.rv1126b.rknn", {.inputs = 1, .outputs = 1}},
        {"rk3576", "conv2d.rk3576.rknn", {.inputs = 1, .outputs = 1}},
        {"rk3588", "test_conv_c16.rk3588.rknn", {.inputs = 1, .outputs = 1}},
    };
    const char *folder = sim_shared_folder();
    (void)state;
    if (!folder)
        skip();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char options[32], path[512];
        snprintf(options, sizeof options, "emu:%s", files[i].chip);
        snprintf(path, sizeof path, "%s/models/rknn/%s", folder, files[i].name);
        check_counts(options, path, files[i].wanted);
    }
}

int main(int n, char **words)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digits), cmocka_unit_test(shared_files)};
    if (n > 2) { // by hand: CHIP FILE…
        for (int i = 2; i < n; i++) {
            struct error e = {0};
            struct direct_counts c = {.print = true};
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
