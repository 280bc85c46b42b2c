// Lists of tensors on the wire: there and back, and every lie refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "protocol/tensor_message.h"

// An int8 picture of 3x5x3 as RK3588 would have it.
static const struct tensor_io picture = {
    .logical = {.n_dims = 4,
                .dims = {1, 3, 5, 3},
                .n_elems = 45,
                .size = 45,
                .size_with_stride = 72,
                .w_stride = 8,
                .zp = -7,
                .scale = 0.25f,
                .type = TENSOR_INT8,
                .layout = TENSOR_NHWC,
                .qnt = TENSOR_QNT_AFFINE,
                .name = "picture"},
    .native = {.n_dims = 5,
               .dims = {1, 1, 3, 5, 16},
               .n_elems = 240,
               .size = 240,
               .size_with_stride = 240,
               .scale = 0.25f,
               .type = TENSOR_INT8,
               .layout = TENSOR_NC1HWC2,
               .qnt = TENSOR_QNT_AFFINE,
               .name = "picture"},
    .native_nhwc = {.n_dims = 4,
                    .dims = {1, 3, 5, 3},
                    .n_elems = 45,
                    .size = 45,
                    .size_with_stride = 45,
                    .h_stride = 3,
                    .zp = 5,
                    .type = TENSOR_UINT8,
                    .layout = TENSOR_NHWC,
                    .name = "picture"},
    .preprocess = {3, {1, 2, 3}, {4, 5, 6}, {2, 1, 0}},
};

static const struct tensor_io scalar = {
    .logical = {.n_elems = 1, .size = 4, .size_with_stride = 4, .layout = TENSOR_UNDEFINED},
    .native = {.n_elems = 1, .size = 4, .size_with_stride = 4, .layout = TENSOR_UNDEFINED},
    .native_nhwc = {.n_elems = 1, .size = 4, .size_with_stride = 4, .layout = TENSOR_UNDEFINED},
};

static void assert_attr_equal(const struct tensor_attr *a, const struct tensor_attr *b)
{
    assert_int_equal(a->n_dims, b->n_dims);
    assert_memory_equal(a->dims, b->dims, sizeof a->dims);
    assert_int_equal(a->n_elems, b->n_elems);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->size_with_stride, b->size_with_stride);
    assert_int_equal(a->w_stride, b->w_stride);
    assert_int_equal(a->h_stride, b->h_stride);
    assert_int_equal(a->zp, b->zp);
    assert_cmp(a->scale, ==, b->scale);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->layout, b->layout);
    assert_int_equal(a->qnt, b->qnt);
    assert_string_equal(a->name, b->name);
}

static void assert_io_equal(const struct tensor_io *a, const struct tensor_io *b)
{
    assert_attr_equal(&a->logical, &b->logical);
    assert_attr_equal(&a->native, &b->native);
    assert_attr_equal(&a->native_nhwc, &b->native_nhwc);
    assert_int_equal(a->preprocess.n_channels, b->preprocess.n_channels);
    assert_memory_equal(a->preprocess.mean, b->preprocess.mean, sizeof a->preprocess.mean);
    assert_memory_equal(a->preprocess.std, b->preprocess.std, sizeof a->preprocess.std);
    assert_memory_equal(a->preprocess.order, b->preprocess.order, sizeof a->preprocess.order);
}

static void list_round_trip(void **state)
{
    (void)state;
    const struct tensor_io *list[] = {&picture, &scalar, &picture};
    struct tensor_io *got = NULL;
    for (size_t n = 0; n <= 3; n++) {
        size_t size;
        cleanup(free_p) uint8_t *bytes = tensor_list_encode(list, n, &size);
        struct bytes payload = {bytes, size};
        assert_int_equal(tensor_list_decode(payload, n, &got, NULL), 0);
        for (size_t i = 0; i < n; i++)
            assert_io_equal(&got[i], list[i]);
        free(got);
    }
}

static void list_of_another_length_is_refused(void **state)
{
    (void)state;
    const struct tensor_io *list[] = {&picture, &scalar};
    size_t size;
    cleanup(free_p) uint8_t *bytes = tensor_list_encode(list, 2, &size);
    struct tensor_io *got = (void *)&size;
    struct error e;
    for (size_t n = 0; n < 6; n++)
        if (n != 2)
            assert_true(tensor_list_decode((struct bytes){bytes, size}, n, &got, &e) < 0);
    for (size_t cut = 0; cut < size; cut++)
        assert_true(tensor_list_decode((struct bytes){bytes, cut}, 2, &got, &e) < 0);
    assert_true(tensor_list_decode((struct bytes){bytes, size}, 4097, &got, &e) < 0);
    assert_true(tensor_list_decode((struct bytes){bytes, size}, SIZE_MAX, &got, &e) < 0);
    assert_ptr_equal(got, &size);
}

static void refuse(const rknnd_TensorIo *m, const char *word)
{
    struct tensor_io io = {.logical.n_elems = 77};
    struct error e = {0};
    assert_cmp(tensor_io_from_message(m, &io, &e), <, 0);
    if (!strstr(e.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, e.text);
    assert_int_equal(io.logical.n_elems, 77);
}

// Refuses the picture with one assignment made in each of its three views.
#define REFUSE_ATTR(word, ...)                                                                     \
    do {                                                                                           \
        rknnd_TensorIo m[3];                                                                       \
        rknnd_TensorAttr *views[] = {&m[0].logical, &m[1].native, &m[2].native_nhwc};              \
        for (int i = 0; i < 3; i++) {                                                              \
            rknnd_TensorAttr *a = views[i];                                                        \
            tensor_io_to_message(&picture, &m[i]);                                                 \
            __VA_ARGS__;                                                                           \
            refuse(&m[i], word);                                                                   \
        }                                                                                          \
    } while (0)

static void attrs_that_lie_are_refused(void **state)
{
    (void)state;
    REFUSE_ATTR("type", a->type = TENSOR_TYPE_COUNT);
    REFUSE_ATTR("type", a->type = UINT32_MAX);
    REFUSE_ATTR("layout", a->layout = TENSOR_LAYOUT_COUNT);
    REFUSE_ATTR("layout", a->layout = 0x80000000);
    REFUSE_ATTR("quantization", a->qnt = TENSOR_QNT_COUNT);
    REFUSE_ATTR("elements", a->n_elems++);
    REFUSE_ATTR("elements", a->n_elems = 0);
    REFUSE_ATTR("elements", a->dims[2]++);
    REFUSE_ATTR("elements", a->dims[0] = 0);
    REFUSE_ATTR("elements", a->dims_count--);
    REFUSE_ATTR("overflow", a->dims[0] = a->dims[1] = 65536);
    REFUSE_ATTR("bytes", a->size--);
    REFUSE_ATTR("bytes", a->size_with_stride = a->size - 1);
    REFUSE_ATTR("bytes", a->type = TENSOR_FLOAT32);
    REFUSE_ATTR("scale", a->scale = NAN);
    REFUSE_ATTR("scale", a->scale = -INFINITY);
}

static void missing_views_are_refused(void **state)
{
    (void)state;
    rknnd_TensorIo m = {0};
    refuse(&m, "logical");
    tensor_io_to_message(&picture, &m);
    m.native = (rknnd_TensorAttr){0};
    refuse(&m, "native");
    tensor_io_to_message(&picture, &m);
    m.native_nhwc = (rknnd_TensorAttr){0};
    refuse(&m, "NHWC");
}

#define REFUSE_PREPROCESS(word, ...)                                                               \
    do {                                                                                           \
        rknnd_TensorIo m;                                                                          \
        rknnd_TensorPreprocess *p = &m.preprocess;                                                 \
        tensor_io_to_message(&picture, &m);                                                        \
        __VA_ARGS__;                                                                               \
        refuse(&m, word);                                                                          \
    } while (0)

static void preprocessing_that_cannot_be_is_refused(void **state)
{
    (void)state;
    REFUSE_PREPROCESS("length", p->mean_count--);
    REFUSE_PREPROCESS("length", p->std_count++);
    REFUSE_PREPROCESS("length", p->order_count = 0);
    REFUSE_PREPROCESS("order", p->order[1] = 3);
    REFUSE_PREPROCESS("order", p->order[2] = 256);
    REFUSE_PREPROCESS("std", p->std[0] = 0);
    REFUSE_PREPROCESS("std", p->std[2] = NAN);
    REFUSE_PREPROCESS("std", p->std[1] = INFINITY);
    REFUSE_PREPROCESS("mean", p->mean[1] = NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_round_trip),
        cmocka_unit_test(list_of_another_length_is_refused),
        cmocka_unit_test(attrs_that_lie_are_refused),
        cmocka_unit_test(missing_views_are_refused),
        cmocka_unit_test(preprocessing_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
