// The .npy files that runtimes dump.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "npu/rknnrt/dump/dump_npy.h"

// A file of version 1 with this header and n bytes behind it.
static int parse(const char *header, size_t n, struct tensor_attr *a, struct bytes *data,
                 struct error *e)
{
    static uint8_t file[512];
    size_t length = strlen(header);
    memcpy(file, "\x93NUMPY\x01", 8);
    write_le16(file + 8, (uint16_t)length);
    memcpy(file + 10, header, length);
    memset(file + 10 + length, 7, n);
    return dump_npy_parse((struct bytes){file, 10 + length + n}, a, data, e);
}

static void reads_shapes_and_types(void **state)
{
    (void)state;
    struct tensor_attr a;
    struct bytes data;
    struct error e = {0};
    assert_int_equal(parse("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 3), }\n", 12,
                           &a, &data, &e),
                     0);
    assert_int_equal(a.type, TENSOR_FLOAT16);
    assert_int_equal(a.n_dims, 3);
    assert_int_equal(a.dims[2], 3);
    assert_int_equal(a.n_elems, 6);
    assert_int_equal(data.size, 12);
    assert_int_equal(data.data[0], 7);
    assert_int_equal(parse("{'shape':(5,),'fortran_order':False,'descr':'|i1'}", 5, &a, &data, &e),
                     0);
    assert_int_equal(a.type, TENSOR_INT8);
    assert_int_equal(a.dims[0], 5);
    assert_int_equal(
        parse("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8, &a, &data, &e), 0);
    assert_int_equal(a.n_dims, 1);
    assert_int_equal(a.n_elems, 1);
}

static void refuses_what_it_does_not_know(void **state)
{
    static const struct {
        const char *header;
        size_t n;
        const char *words;
    } bad[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, "big-endian"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, "type"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 4, "order"},
        {"{'descr': '<f4', 'shape': (1,), }", 4, "damaged"},
        {"{'descr': '<f4', 'fortran_order': False, }", 4, "damaged"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", 0, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4, "damaged"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 4, "says 8"},
        {"{'descr': '|i1', 'fortran_order': False, 'shape': (65536, 65536), }", 0,
         "says 4294967296"},
    };
    struct tensor_attr a;
    struct bytes data;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        assert_int_equal(parse(bad[i].header, bad[i].n, &a, &data, &e), STATUS_FAIL);
        if (!strstr(e.text, bad[i].words))
            fail_msg("\"%s\" does not say \"%s\"", e.text, bad[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_shapes_and_types),
        cmocka_unit_test(refuses_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
