// What the backend believes of a runtime's answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/rknnrt/shape_sets.h"

// The answers of a runtime with one input and one output, 1 x 4 x 4 x 3 and 1 x 8 x 4 x 4.
static struct {
    rknn_input_output_num count;
    rknn_tensor_attr input, native_input, output, native_output;
    uint32_t n_shapes; // 0: it does not know dynamic shapes
} answers;

static rknn_tensor_attr attr(rknn_tensor_format fmt, uint32_t n_dims, const uint32_t *dims)
{
    rknn_tensor_attr a = {.n_dims = n_dims,
                          .fmt = fmt,
                          .type = RKNN_TENSOR_INT8,
                          .qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC,
                          .zp = -3,
                          .scale = 0.5f,
                          .name = "x"};
    a.n_elems = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        a.n_elems *= a.dims[i] = dims[i];
    a.size = a.size_with_stride = a.n_elems;
    return a;
}

static int set_up(void **state)
{
    (void)state;
    answers.count = (rknn_input_output_num){1, 1};
    answers.input = attr(RKNN_TENSOR_NHWC, 4, (uint32_t[]){1, 4, 4, 3});
    answers.native_input = answers.input;
    answers.native_input.w_stride = 16;
    answers.native_input.size_with_stride = 16 * 4 * 3;
    answers.output = attr(RKNN_TENSOR_NCHW, 4, (uint32_t[]){1, 8, 4, 4});
    answers.native_output = attr(RKNN_TENSOR_NC1HWC2, 5, (uint32_t[]){1, 1, 4, 4, 16});
    answers.n_shapes = 0;
    return 0;
}

static int answer_range(rknn_input_range *r)
{
    if (!answers.n_shapes)
        return RKNN_ERR_PARAM_INVALID;
    *r = (rknn_input_range){.shape_number = answers.n_shapes, .n_dims = 4, .name = "x"};
    return RKNN_SUCC;
}

static int fake_query(rknn_context c, rknn_query_cmd cmd, void *info, uint32_t size)
{
    (void)c;
    switch (cmd) {
    case RKNN_QUERY_IN_OUT_NUM:
        memcpy(info, &answers.count, size);
        return RKNN_SUCC;
    case RKNN_QUERY_INPUT_ATTR:
        memcpy(info, &answers.input, size);
        return RKNN_SUCC;
    case RKNN_QUERY_NATIVE_INPUT_ATTR:
        memcpy(info, &answers.native_input, size);
        return RKNN_SUCC;
    case RKNN_QUERY_OUTPUT_ATTR:
        memcpy(info, &answers.output, size);
        return RKNN_SUCC;
    case RKNN_QUERY_NATIVE_OUTPUT_ATTR:
        memcpy(info, &answers.native_output, size);
        return RKNN_SUCC;
    case RKNN_QUERY_INPUT_DYNAMIC_RANGE:
        return answer_range(info);
    default:
        return RKNN_ERR_PARAM_INVALID;
    }
}

static int ask(struct npu_model_info *info, struct error *e)
{
    static const struct runtime runtime = {.query = fake_query, .version = "0"};
    *info = (struct npu_model_info){0};
    return rows_query(&runtime, 1, info, e);
}

static void drop(struct npu_model_info *info)
{
    free((void *)info->inputs);
    free((void *)info->outputs);
}

static void takes_what_can_be(void **state)
{
    struct npu_model_info info;
    struct error e = {0};
    (void)state;
    assert_int_equal(ask(&info, &e), 0);
    const struct tensor_io *in = info.inputs, *out = info.outputs;
    assert_true(in->device_converts);
    assert_int_equal(in->logical.layout, TENSOR_NHWC);
    assert_int_equal(in->native.w_stride, 16);
    assert_int_equal(in->native_nhwc.w_stride, 0); // not told
    assert_int_equal(out->logical.layout, TENSOR_NCHW);
    assert_int_equal(out->native.dims[4], 16);
    assert_int_equal(out->logical.zp, -3);
    assert_int_equal(info.n_shape_sets, 1);
    drop(&info);
}

static void expect_refused(const char *words)
{
    struct npu_model_info info;
    struct error e = {0};
    if (ask(&info, &e) != STATUS_MODEL_INVALID || !strstr(e.text, words))
        fail_msg("\"%s\" does not say \"%s\"", e.text, words);
    drop(&info);
    set_up(NULL);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    answers.count.n_input = 0;
    expect_refused("0 inputs");
    answers.count.n_output = UINT32_MAX;
    expect_refused("4294967295 outputs");
    answers.input.n_dims = 17;
    expect_refused("input 0: 17 dimensions");
    memset(answers.input.name, 'x', sizeof answers.input.name);
    expect_refused("a name without an end");
    answers.input.dims[1] = UINT32_MAX;
    expect_refused("above 4 GB");
    answers.output.dims[1] = 0;
    expect_refused("output 0: its dimensions are empty");
    answers.output.type = (rknn_tensor_type)99;
    expect_refused("type 99");
    answers.output.qnt_type = RKNN_TENSOR_QNT_DFP;
    expect_refused("quantization 1");
    answers.output.fmt = RKNN_TENSOR_NHWC;
    expect_refused("layout NHWC");
    answers.native_output.dims[4] = 4; // fewer than 8 channels
    expect_refused("output 0");
    answers.native_input.size_with_stride = 4 * 4 * 3; // less than its stride
    expect_refused("input 0");
    answers.native_input.w_stride = 3;
    expect_refused("input 0");
    answers.n_shapes = 513;
    expect_refused("513 shapes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(takes_what_can_be, set_up),
        cmocka_unit_test_setup(refuses_what_cannot_be, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
