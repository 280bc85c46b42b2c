// Damaged model files: cut off anywhere, or with bits turned, they are refused with words or still
// run; nothing else. Under the sanitizers this also proves that nothing is read outside or kept.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sim_support.h"

#define CORPUS PROJECT_ROOT "/tests/fuzz/corpus/rknn/"

static struct npu_device *device;

static const char *const models[] = {
    "rk3576_rows_1.rknn",   "rv1106_2_1.rknn",     "rk3568_32.rknn",         "argmax.rknn",
    "split_unread_01.rknn", "top_k_unread_0.rknn", "rk3588_half_groups.rknn"};

// Loads a copy that is exactly as long as it says.
static int try_to_load(const uint8_t *data, size_t size)
{
    struct error e = {0};
    struct npu_model *m = NULL;
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    struct npu_model_source source = {.file = {copy, size}, .name = "damaged"};
    int r = npu_backend.model_load(device, &source, &m, &e);
    if (r < 0) {
        assert_int_not_equal(e.text[0], 0);
        assert_int_equal(e.code, r);
    }
    npu_backend.model_free(m);
    free(copy);
    return r;
}

static void cut_off_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct sim_file f;
        assert_true(sim_file_read(&f, CORPUS "%s", models[i]));
        assert_int_equal(try_to_load(f.data, f.size), 0);
        for (size_t size = 0; size < f.size; size += 1 + size / 64)
            assert_cmp(try_to_load(f.data, size), <, 0);
        assert_cmp(try_to_load(f.data, f.size - 1), <, 0);
        sim_file_free(&f);
    }
}

static void turned_bits(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int k = 0; k < 500; k++) {
            struct sim_file f;
            assert_true(sim_file_read(&f, CORPUS "%s", models[i]));
            for (int n = 0; n < 1 + k % 8; n++) {
                random = random * 1664525 + 1013904223;
                size_t bit = random % (8 * f.size);
                f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
            try_to_load(f.data, f.size);
            sim_file_free(&f);
        }
}

static void expect(const char *bytes, size_t size, int code, const char *words)
{
    struct error e = {0};
    struct npu_model *m = NULL;
    struct npu_model_source source = {.file = {(const uint8_t *)bytes, size}, .name = "x"};
    assert_int_equal(npu_backend.model_load(device, &source, &m, &e), code);
    if (!strstr(e.text, words))
        fail_msg("\"%s\" does not say \"%s\"", e.text, words);
    char *text;
    assert_int_equal(npu_backend.model_describe(device, &source, &text, &e), 0);
    assert_non_null(strstr(text, words));
    free(text);
}

static void other_kinds_are_named(void **state)
{
    (void)state;
    expect("CYPTRKNN....", 12, STATUS_MODEL_INVALID, "encrypted");
    expect("RKNX........", 12, STATUS_MODEL_INVALID, "next generation");
    expect("VPMN........", 12, STATUS_MODEL_INVALID, "binary graph");
    expect("\x7f"
           "ELF........",
           12, STATUS_MODEL_INVALID, "neither a .rknn nor an .onnx model");
    expect("\x1c\0\0\0TFL3....", 12, STATUS_MODEL_INVALID, "TensorFlow Lite");
    expect("\x1c\0\0\0ORT", 7, STATUS_MODEL_INVALID, "neither a .rknn nor an .onnx model");
    expect("\x1c\0\0\0ORTM", 8, STATUS_MODEL_INVALID, "ONNX Runtime");
    expect("PK\3\4........", 12, STATUS_MODEL_INVALID, "PyTorch");
    expect("version https://git-lfs.github.com/spec/v1\n", 43, STATUS_MODEL_INVALID,
           "git lfs pull");
    expect("<!DOCTYPE html>", 15, STATUS_MODEL_INVALID, "a page of the web");
    expect("", 0, STATUS_MODEL_INVALID, "neither a .rknn nor an .onnx model");
    expect("RKNN\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, STATUS_MODEL_INVALID, "0x9");
}

static void unknown_options_are_refused(void **state)
{
    (void)state;
    struct error e = {0};
    struct npu_device *d;
    assert_int_equal(npu_backend.device_open("rk9999", &d, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "rk3588"));
}

int main(void)
{
    struct error e;
    if (npu_backend.device_open("any", &device, &e) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_off_anywhere),
        cmocka_unit_test(turned_bits),
        cmocka_unit_test(other_kinds_are_named),
        cmocka_unit_test(unknown_options_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    npu_backend.device_free(device);
    return failed;
}
