// Descriptions of tensors from outside are believed only when everything in them agrees.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/tensor.h"

static const struct tensor_attr good = {.n_dims = 4,
                                        .dims = {1, 2, 3, 5},
                                        .n_elems = 30,
                                        .size = 60,
                                        .size_with_stride = 64,
                                        .type = TENSOR_FLOAT16,
                                        .layout = TENSOR_NHWC,
                                        .qnt = TENSOR_QNT_AFFINE,
                                        .name = "in"};

static void check_refused(const struct tensor_attr *a)
{
    struct error e = {0};
    assert_int_equal(tensor_attr_check(a, "input 3", &e), STATUS_PARAM_INVALID);
    assert_int_equal(strncmp(e.text, "input 3: ", 9), 0);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    assert_int_equal(tensor_attr_check(&good, "input 3", NULL), 0);
#define REFUSE(change)                                                                             \
    do {                                                                                           \
        struct tensor_attr a = good;                                                               \
        change;                                                                                    \
        check_refused(&a);                                                                         \
    } while (0)
    REFUSE(memset(a.name, 'x', sizeof a.name));
    REFUSE(a.n_dims = TENSOR_MAX_DIMS + 1);
    REFUSE(a.n_elems = 31);
    REFUSE(a.size = 61);
    REFUSE(a.size_with_stride = 59);
    REFUSE(a.type = TENSOR_TYPE_COUNT);
    REFUSE(a.type = (enum tensor_type) - 1);
    REFUSE(a.layout = TENSOR_LAYOUT_COUNT);
    REFUSE(a.qnt = TENSOR_QNT_COUNT);
    REFUSE((a.dims[0] = 65536, a.dims[1] = 65536)); // 2^32 * 15
    REFUSE((a.dims[3] = 1u << 30, a.n_elems = 6u << 30, a.size = 0));
}

static void bytes_do_not_overflow(void **state)
{
    (void)state;
    size_t n = 77;
    assert_true(tensor_bytes(TENSOR_INT4, 5, &n));
    assert_int_equal(n, 3);
    const size_t half = SIZE_MAX / 2 + 1; // of what can be addressed
    assert_true(tensor_bytes(TENSOR_INT64, half / 8, &n));
    assert_int_equal(n, half);
    assert_false(tensor_bytes(TENSOR_INT64, half / 4, &n));
    assert_false(tensor_bytes(TENSOR_TYPE_COUNT, 1, &n));
    assert_int_equal(n, half);
}

static void unknown_numbers_have_a_name(void **state)
{
    (void)state;
    assert_string_equal(tensor_type_name((enum tensor_type) - 1), "UNKNOW");
    assert_string_equal(tensor_layout_name(TENSOR_LAYOUT_COUNT), "UNKNOW");
    assert_string_equal(tensor_qnt_name(TENSOR_QNT_COUNT), "UNKNOW");
    assert_string_equal(tensor_type_name(TENSOR_BFLOAT16), "BF16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(bytes_do_not_overflow),
        cmocka_unit_test(unknown_numbers_have_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
