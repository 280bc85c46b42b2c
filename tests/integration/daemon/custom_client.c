// Runs a model with operators of its own, cstDualResidual and ArgMax, and compares the outputs.
//
// custom_client FOLDER NAME: as the conformance programs. custom_client FOLDER NAME CODE: each
// compute() says "computing" and goes on when it gets a line; the run ends with CODE, and its
// attempts and words are printed. custom_client FOLDER NAME CODE plugin: registers nothing.
#include "rknn_custom_op.h"
#include "rknnd.h"
#include "tests/conformance/conformance.h"

static bool asks;

static void ask(void)
{
    char line[8];
    if (!asks)
        return;
    printf("computing\n");
    fflush(stdout);
    EXPECT(fgets(line, sizeof line, stdin));
}

static float *data(const rknn_custom_op_tensor *t)
{
    return (float *)((uint8_t *)t->mem.virt_addr + t->mem.offset);
}

static int compute_residual(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                            uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    rknn_custom_op_attr alpha;
    rknn_custom_op_get_op_attr(c, "alpha", &alpha);
    if (!EXPECT(n_inputs == 2 && n_outputs == 2 && alpha.n_elems == 1 &&
                alpha.dtype == RKNN_TENSOR_FLOAT32))
        return RKNN_ERR_PARAM_INVALID;
    ask();
    float f = *(const float *)alpha.data;
    for (uint32_t i = 0; i < inputs[0].attr.n_elems; i++) {
        data(&outputs[0])[i] = data(&inputs[0])[i] + f * data(&inputs[1])[i];
        data(&outputs[1])[i] = data(&inputs[1])[i] - f * data(&inputs[0])[i];
    }
    return 0;
}

static int compute_argmax(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                          uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c;
    if (!EXPECT(n_inputs == 1 && n_outputs == 1 && outputs[0].attr.type == RKNN_TENSOR_INT64))
        return RKNN_ERR_PARAM_INVALID;
    const float *x = data(&inputs[0]);
    int64_t *y = (int64_t *)data(&outputs[0]);
    uint32_t plane = outputs[0].attr.n_elems, channels = inputs[0].attr.n_elems / plane;
    for (uint32_t i = 0; i < plane; i++) {
        y[i] = 0;
        for (uint32_t k = 1; k < channels; k++)
            if (x[k * plane + i] > x[y[i] * plane + i])
                y[i] = k;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char path[512];
    rknn_custom_op ops[] = {{.version = 1,
                             .target = RKNN_TARGET_TYPE_CPU,
                             .op_type = "cstDualResidual",
                             .compute = compute_residual},
                            {.version = 1,
                             .target = RKNN_TARGET_TYPE_CPU,
                             .op_type = "ArgMax",
                             .compute = compute_argmax}};
    conformance_start(argc, argv);
    NEED(argc >= 3 && argc <= 5);
    asks = argc >= 4;
    snprintf(path, sizeof path, "%s.rknn", argv[2]);
    rknn_context c = conformance_open(path, 0);
    if (argc < 5)
        EXPECT_OK(rknn_register_custom_ops(c, ops, 2));
    conformance_set_inputs(c, argv[2]);
    int code = rknn_run(c, NULL), expected = asks ? atoi(argv[3]) : 0;
    rknnd_run_info info = {.struct_size = sizeof info};
    if (!EXPECT(code == expected) || code < 0)
        printf("%s\n", rknnd_last_error());
    if (code == 0) {
        conformance_expect_outputs(c, argv[2]);
        EXPECT_OK(rknnd_get_run_info(c, &info));
        printf("attempts %u\n", info.attempts);
    }
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
