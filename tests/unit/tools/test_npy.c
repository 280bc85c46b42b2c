// Damaged and hostile .npy files: refused in words, without a byte read beyond their end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "tools/format/npy_file.h"

// A file of version 1 with this header and this many bytes of data, in a block of exactly its size.
static uint8_t *make_file(const char *header, size_t data, size_t *ret_size)
{
    size_t n = strlen(header);
    uint8_t *file = malloc(10 + n + data);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    memcpy(file + 10, header, n);
    memset(file + 10 + n, 1, data);
    *ret_size = 10 + n + data;
    return file;
}

static void check_refused(const char *header, size_t data, const char *words)
{
    struct npy a = {.n_dims = 77};
    struct error e = {0};
    size_t size;
    uint8_t *file = make_file(header, data, &size);
    assert_int_equal(npy_parse((struct bytes){file, size}, &a, &e), STATUS_FAIL);
    free(file);
    assert_non_null(strstr(e.text, words));
    assert_int_equal(a.n_dims, 77);
}

static void impossible_headers_are_refused(void **state)
{
    (void)state;
#define HEADER(descr, order, shape)                                                                \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"
    check_refused(HEADER("'<f4'", "False", "(2, 3)"), 23, "23 bytes of data");
    check_refused(HEADER("'<f4'", "False", "(2, 3)"), 25, "says 24");
    check_refused(HEADER("'<f4'", "False", "(4294967296, 4294967296)"), 0, "damaged");
    check_refused(HEADER("'<f4'", "False", "(4611686018427387904,)"), 0, "damaged");
    check_refused(HEADER("'<f4'", "False", "(99999999999999999999,)"), 4, "damaged");
    check_refused(HEADER("'<f4'", "False", "(-1,)"), 4, "damaged");
    check_refused(HEADER("'<f4'", "False", "(2 3)"), 24, "damaged");
    check_refused(HEADER("'<f4'", "False", "(,)"), 4, "damaged");
    check_refused(HEADER("'<f4'", "False", "(2, 3"), 24, "damaged");
    check_refused(HEADER("'<f4'", "Maybe", "(1,)"), 4, "damaged");
    check_refused(HEADER("'<f4", "False", "(1,)"), 4, "damaged");
    check_refused(HEADER("'zf4'", "False", "(1,)"), 4, "zf4");
    check_refused(HEADER("''", "False", "(1,)"), 4, "damaged");
    check_refused(HEADER("'<f4'", "False", "(1,)") "", 0, "0 bytes of data");
    check_refused("{'descr': '<f4', 'fortran_order': False}", 4, "damaged");
    check_refused("{'shape': (1,), 'shape': (1,), 'descr': '<f4'}", 4, "damaged");
    check_refused("{'descr': '<f4', 'shape': (1,), 'more': 1}", 4, "damaged");
    check_refused("{'descr': '<f4', 'shape': (1,)}", 4, "damaged");
    check_refused("{", 4, "damaged");
    check_refused("", 4, "damaged");
}

static void too_many_dims_are_refused(void **state)
{
    (void)state;
    char header[400] = "{'descr': '|u1', 'fortran_order': False, 'shape': (";
    for (int i = 0; i <= NPY_MAX_DIMS; i++)
        strcat(header, "1, ");
    check_refused(strcat(header, ")}"), 1, "damaged");
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    size_t size;
    struct error e;
    struct npy a;
    uint8_t *file = make_file(HEADER("'<i2'", "False", "(3, 2)"), 12, &size);
    for (size_t n = 0; n < size; n++) {
        uint8_t *part = malloc(n ? n : 1);
        assert_non_null(part);
        memcpy(part, file, n);
        assert_int_equal(npy_parse((struct bytes){part, n}, &a, &e), STATUS_FAIL);
        free(part);
    }
    assert_int_equal(npy_parse((struct bytes){file, size}, &a, &e), 0);
    assert_int_equal(a.data.size, 12);
    assert_int_equal(a.n_dims, 2);
    assert_int_equal(a.shape[0], 3);
    assert_int_equal(a.shape[1], 2);
    file[6] = 4;
    assert_int_equal(npy_parse((struct bytes){file, size}, &a, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "version 4"));
    free(file);
}

// One element, of which the file's bytes are given.
static int narrow(const char *descr, uint64_t bits, void *dst, size_t *ret_size, struct error *e)
{
    char header[100];
    size_t size;
    struct npy a;
    snprintf(header, sizeof header, HEADER("'%s'", "False", "(1,)"), descr);
    uint8_t *file = make_file(header, 8, &size);
    memcpy(file + size - 8, &bits, 8);
    assert_int_equal(npy_parse((struct bytes){file, size}, &a, e), STATUS_FAIL); // no such tensor
    assert_int_equal(npy_parse_any((struct bytes){file, size}, &a, e), 0);
    uint8_t room[8];
    int r = npy_take(&a, room, ret_size, e);
    free(file);
    if (r == 0)
        memcpy(dst, room, *ret_size);
    return r;
}

static int narrow_double(double v, float *ret, struct error *e)
{
    uint64_t bits;
    size_t size = 0;
    memcpy(&bits, &v, sizeof bits);
    int r = narrow("<f8", bits, ret, &size, e);
    assert_true(r < 0 || size == sizeof *ret);
    return r;
}

static void wide_numbers_are_narrowed_or_refused(void **state)
{
    (void)state;
    struct error e;
    float f = 0;
    int64_t i = 0;
    size_t size;
    assert_int_equal(narrow_double(0.1, &f, &e), 0);
    assert_cmp(f, ==, 0.1f);
    assert_int_equal(narrow_double(-0x1p60, &f, &e), 0);
    assert_cmp(f, ==, -0x1p60f);
    assert_int_equal(narrow_double((double)INFINITY, &f, &e), 0);
    assert_true(isinf(f));
    assert_int_equal(narrow_double(16777217, &f, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "16777217"));
    assert_int_equal(narrow_double(1e300, &f, &e), STATUS_FAIL);
    assert_int_equal(narrow("<u8", INT64_MAX, &i, &size, &e), 0);
    assert_int_equal(i, INT64_MAX);
    assert_int_equal(size, sizeof i);
    assert_int_equal(narrow("<u8", (uint64_t)1 << 63, &i, &size, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "9223372036854775808"));
}

static void files_that_cannot_be_written_leave_nothing(void **state)
{
    (void)state;
    const uint32_t dims[1] = {2};
    const float data[2] = {1, 2};
    struct error e = {0};
    char folder[] = "/tmp/test_npy.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/none/out.npy", folder);
    assert_int_equal(npy_file_write(path, RKNN_TENSOR_FLOAT32, dims, 1, data, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, path));
    snprintf(path, sizeof path, "%s/out.npy", folder);
    assert_int_equal(npy_file_write(path, RKNN_TENSOR_INT4, dims, 1, data, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "INT4"));
    assert_int_equal(rmdir(folder), 0); // so it is empty
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_headers_are_refused),
        cmocka_unit_test(too_many_dims_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(wide_numbers_are_narrowed_or_refused),
        cmocka_unit_test(files_that_cannot_be_written_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
