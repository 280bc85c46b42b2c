// As programs that speak a text: int64 inputs without a format, and of the outputs want_float alone
// is set. The model is an ONNX file.
#include "../conformance.h"

#define NAME    "speech"
#define INPUTS  2
#define OUTPUTS 3

static void set_inputs(rknn_context c)
{
    rknn_input inputs[INPUTS];
    memset(inputs, 0, sizeof inputs);
    for (uint32_t i = 0; i < INPUTS; i++) {
        size_t size;
        inputs[i].index = i;
        inputs[i].type = RKNN_TENSOR_INT64;
        inputs[i].buf = conformance_file(&size, NAME ".in%u.bin", i);
        inputs[i].size = (uint32_t)size;
    }
    EXPECT_OK(rknn_inputs_set(c, INPUTS, inputs));
    for (int i = 0; i < INPUTS; i++)
        free(inputs[i].buf);
}

static void expect_outputs(rknn_context c)
{
    rknn_tensor_attr *attrs = conformance_attrs(c, RKNN_QUERY_OUTPUT_ATTR);
    rknn_output outputs[OUTPUTS];
    memset(outputs, 0, sizeof outputs);
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i].want_float = 1;
    NEED_OK(rknn_outputs_get(c, OUTPUTS, outputs, NULL));
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        EXPECT_CMP(attrs[i].type, ==, RKNN_TENSOR_FLOAT32);
        EXPECT_CMP(outputs[i].index, ==, i);
        conformance_compare(&attrs[i], NAME, i, outputs[i].buf, outputs[i].size);
    }
    EXPECT_OK(rknn_outputs_release(c, OUTPUTS, outputs));
    free(attrs);
}

// Whether the server's worker would convert it or the library: a type that int64 cannot be made of
// is refused where it is given.
static void refuse_other_types(rknn_context c)
{
    static const rknn_tensor_type types[] = {RKNN_TENSOR_FLOAT32, RKNN_TENSOR_UINT8,
                                             RKNN_TENSOR_INT32};
    size_t size;
    void *buf = conformance_file(&size, NAME ".in0.bin");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        rknn_input in = {.buf = buf, .size = (uint32_t)size, .type = types[i]};
        EXPECT_REFUSED(RKNN_ERR_INPUT_INVALID, "INT64", rknn_inputs_set(c, 1, &in));
    }
    free(buf);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c = conformance_open(NAME ".onnx", 0);
    rknn_tensor_attr *attrs = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    for (uint32_t i = 0; i < INPUTS; i++) {
        EXPECT_CMP(attrs[i].type, ==, RKNN_TENSOR_INT64);
        EXPECT_CMP(attrs[i].fmt, ==, RKNN_TENSOR_UNDEFINED);
    }
    free(attrs);
    refuse_other_types(c);
    for (int text = 0; text < 3; text++) {
        set_inputs(c);
        EXPECT_OK(rknn_run(c, NULL));
        expect_outputs(c);
    }
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
