// Which tensors the NPU can have where they lie.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "npu/buffer/buffer.h"
#include "npu/rknnrt/lanes/lane_direct.h"

// 1 x 3 x 4 x 6, in rows of 8; natively in blocks of 16 channels.
static const struct tensor_io io = {
    .logical = {.type = TENSOR_INT8,
                .layout = TENSOR_NCHW,
                .n_dims = 4,
                .dims = {1, 3, 4, 6},
                .n_elems = 72,
                .size = 72,
                .size_with_stride = 72},
    .native_nhwc = {.type = TENSOR_INT8,
                    .layout = TENSOR_NHWC,
                    .n_dims = 4,
                    .dims = {1, 4, 6, 3},
                    .n_elems = 72,
                    .size = 72,
                    .w_stride = 8,
                    .size_with_stride = 96},
    .native = {.type = TENSOR_INT8,
               .layout = TENSOR_NC1HWC2,
               .n_dims = 5,
               .dims = {1, 1, 4, 6, 16},
               .n_elems = 384,
               .size = 384,
               .size_with_stride = 384},
};
static const struct npu_buffer dmabuf;
static uint8_t data[512];

static bool input(struct npu_input in)
{
    in.data = data;
    return lane_direct_input(&in, &io, in.pass_through ? &io.native : &io.native_nhwc);
}

static void inputs(void **state)
{
    const struct npu_input good = {
        .size = 96, .type = TENSOR_UINT8, .layout = TENSOR_NHWC, .w_stride = 8, .dmabuf = &dmabuf};
    struct npu_input in = good;
    (void)state;
    assert_true(input(good));
    in.h_stride = 4;
    assert_true(input(in));
    in.h_stride = 5;
    assert_false(input(in));
    in = good;
    in.dmabuf = NULL;
    assert_false(input(in));
    in = good;
    in.converted = true;
    assert_false(input(in));
    in = good;
    in.w_stride = 0;
    assert_false(input(in));
    in = good;
    in.layout = TENSOR_NCHW;
    assert_false(input(in));
    in = good;
    in.size = 97;
    assert_false(input(in));
    in = good;
    in.stored = true;
    assert_false(input(in));
    in.type = TENSOR_INT8;
    assert_true(input(in));
    assert_true(input((struct npu_input){.size = 384, .pass_through = true, .dmabuf = &dmabuf}));
    assert_false(input((struct npu_input){.size = 96, .pass_through = true, .dmabuf = &dmabuf}));
}

static bool output(struct convert_form form, size_t size, struct tensor_attr *ret)
{
    struct npu_output out = {.data = data, .size = size, .form = &form, .dmabuf = &dmabuf};
    return lane_direct_output(&out, &io, ret);
}

static void outputs(void **state)
{
    struct tensor_attr a;
    struct convert_form blocks = {.type = TENSOR_INT8, .layout = TENSOR_NC1HWC2, .c2 = 16};
    struct convert_form rows = {.type = TENSOR_INT8, .layout = TENSOR_NHWC, .w_stride = 8};
    (void)state;
    assert_true(output(blocks, 384, &a));
    assert_int_equal(a.layout, TENSOR_NC1HWC2);
    blocks.c2 = 8;
    assert_false(output(blocks, 384, &a));
    assert_true(output(rows, 96, &a));
    assert_int_equal(a.layout, TENSOR_NHWC);
    rows.w_stride = 6;
    assert_false(output(rows, 72, &a));
    assert_true(output((struct convert_form){.type = TENSOR_INT8, .layout = TENSOR_NCHW}, 72, &a));
    assert_int_equal(a.type, TENSOR_INT8);
    assert_int_equal(a.layout, TENSOR_NCHW);
    assert_true(
        output((struct convert_form){.type = TENSOR_FLOAT32, .layout = TENSOR_NCHW}, 288, &a));
    assert_int_equal(a.type, TENSOR_FLOAT32);
    assert_int_equal(a.size, 72);
    assert_false(
        output((struct convert_form){.type = TENSOR_FLOAT32, .layout = TENSOR_NHWC}, 288, &a));
    assert_false(
        output((struct convert_form){.type = TENSOR_FLOAT16, .layout = TENSOR_NCHW}, 144, &a));
    assert_false(output(
        (struct convert_form){.type = TENSOR_INT8, .layout = TENSOR_NCHW, .w_stride = 7}, 84, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs),
        cmocka_unit_test(outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
