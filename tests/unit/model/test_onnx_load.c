// ONNX files behind the device contract: attributes, layers, descriptions, refusals. The models are
// the small ones that the fuzzer starts from.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sim_support.h"

static struct sim_file file; // its bytes must stay as long as its model

static int load(const char *chip, const char *name, size_t cut, struct npu_device **device,
                struct npu_model **m, struct error *e)
{
    assert_true(sim_file_read(&file, CORPUS "/%s", name));
    assert_int_equal(npu_backend.device_open(chip, device, e), 0);
    struct npu_model_source source = {.file = {file.data, file.size - cut}, .name = name};
    return npu_backend.model_load(*device, &source, m, e);
}

static void unload(struct npu_device *device, struct npu_model *m)
{
    npu_backend.model_free(m);
    npu_backend.device_free(device);
    sim_file_free(&file);
}

static void attributes_are_those_of_the_rknn_api(void **state)
{
    (void)state;
    static const char *const chips[] = {"", "rk3588", "rk3576", "rk3568", "rk3562", "rv1106"};
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        struct npu_device *device;
        struct npu_model *m;
        struct error e = {0};
        if (load(chips[i], "conv", 0, &device, &m, &e) < 0)
            fail_msg("%s: %s", chips[i], e.text);
        const struct npu_model_info *info = npu_backend.model_info(m);
        assert_int_equal(info->n_inputs, 1);
        assert_int_equal(info->n_outputs, 1);
        const struct tensor_attr *in = &info->inputs[0].logical, *out = &info->outputs[0].logical;
        assert_int_equal(in->layout, TENSOR_NHWC);
        assert_memory_equal(in->dims, ((uint32_t[]){1, 5, 5, 2}), 16);
        assert_int_equal(out->layout, TENSOR_NCHW);
        assert_memory_equal(out->dims, ((uint32_t[]){1, 3, 5, 5}), 16);
        assert_int_equal(out->type, TENSOR_FLOAT32);
        assert_int_equal(out->size, 75 * sizeof(float));
        assert_string_equal(in->name, "x");
        assert_int_equal(tensor_attr_check(in, "x", &e), 0);
        assert_int_equal(tensor_attr_check(out, "y", &e), 0);
        assert_cmp(info->weight_size, >, 0);
        assert_cmp(info->internal_size, >, 0);
        assert_cmp(info->memory_size, >, 0);
        assert_string_equal(info->custom_string, "");
        unload(device, m);
    }
}

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

// Runs it once, with zeros; its layers, which are the context's.
static const struct npu_layer *layers_of_a_run(struct npu_context *c, void *x, size_t x_size,
                                               void *y, size_t y_size, size_t *ret_n)
{
    struct error e = {0};
    int status = -1;
    struct npu_input in = {.data = memset(x, 0, x_size), .size = x_size, .layout = TENSOR_NHWC};
    struct npu_output out = {.data = y, .size = y_size};
    struct npu_job job = {.inputs = &in,
                          .outputs = &out,
                          .core_mask = 1,
                          .collect_perf = true,
                          .done = note_done,
                          .owner = &status};
    assert_int_equal(npu_backend.context_submit(c, &job, &e), 0);
    assert_int_equal(status, 0);
    return npu_backend.context_layers(c, ret_n);
}

// BatchNormalization and Relu are done by the convolution.
static void what_follows_a_convolution_is_one_layer_with_it(void **state)
{
    (void)state;
    struct npu_device *device;
    struct npu_model *m;
    struct npu_context *c;
    struct error e = {0};
    float x[50], y[75];
    size_t n;
    assert_int_equal(load("", "conv", 0, &device, &m, &e), 0);
    assert_int_equal(npu_backend.context_new(m, &c, &e), 0);
    const struct npu_layer *layers = layers_of_a_run(c, x, sizeof x, y, sizeof y, &n);
    assert_int_equal(n, 1);
    assert_string_equal(layers[0].op, "Conv");
    for (size_t i = 0; i < 75; i++)
        assert_cmp(y[i], >=, 0);
    npu_backend.context_free(c);
    unload(device, m);
}

// Nine functions of a quantized tensor, each of them quantized again: nothing but the model's input
// is quantized by a layer of its own.
static void functions_of_quantized_numbers_are_tables(void **state)
{
    (void)state;
    struct npu_device *device;
    struct npu_model *m;
    struct npu_context *c;
    struct error e = {0};
    float x[6], y[9 * 6];
    size_t n, quantize = 0;
    assert_int_equal(load("", "qdq_numbers", 0, &device, &m, &e), 0);
    assert_int_equal(npu_backend.context_new(m, &c, &e), 0);
    const struct npu_layer *layers = layers_of_a_run(c, x, sizeof x, y, sizeof y, &n);
    for (size_t i = 0; i < n; i++)
        quantize += strcmp(layers[i].op, "QuantizeLinear") == 0;
    assert_int_equal(quantize, 1);
    npu_backend.context_free(c);
    unload(device, m);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 60; cut++) {
        struct npu_device *device;
        struct npu_model *m = NULL;
        struct error e = {0};
        assert_cmp(load("", "conv", cut, &device, &m, &e), <, 0);
        assert_true(e.text[0]);
        unload(device, NULL);
    }
}

static void a_file_is_described(void **state)
{
    (void)state;
    struct npu_device *device;
    struct error e = {0};
    char *text;
    assert_true(sim_file_read(&file, CORPUS "/qdq"));
    assert_int_equal(npu_backend.device_open("", &device, &e), 0);
    struct npu_model_source source = {.file = {file.data, file.size}, .name = "qdq"};
    assert_int_equal(npu_backend.model_describe(device, &source, &text, &e), 0);
    assert_non_null(strstr(text, "\"onnx\""));
    assert_non_null(strstr(text, "\"QuantizeLinear\": 2"));
    assert_null(strstr(text, "\"refused\""));
    free(text);
    sim_file_free(&file);
    npu_backend.device_free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_those_of_the_rknn_api),
        cmocka_unit_test(what_follows_a_convolution_is_one_layer_with_it),
        cmocka_unit_test(functions_of_quantized_numbers_are_tables),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_file_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
