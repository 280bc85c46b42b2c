// Real model files on the software NPU, against outputs computed by other means. Needs the shared
// folder of models; skipped without it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tensor/convert.h"
#include "tests/support/sim_support.h"

// How near an output must be: every value within `steps` quantization steps, at least `share` of
// them within `near` steps, and the cosine.
struct bound {
    double steps, near, share, cosine;
};

static const struct bound single = {1, 0.5, 0.99, 0.9999};
static const struct bound exact_steps = {1, 1, 1, 0.9999};
static const struct bound deep = {1e9, 2, 0.99, 0.9995};
// The references round once where the chips do twice: test_npuref says that each node is right. A
// class is another one only where two are equally likely.
static const struct bound classes = {1, 0, 0.999, 0.99};
// A step in its first layer becomes fourteen in the second one: its calibration clips.
static const struct bound clipped = {8, 3, 0.99, 0.97};
static const struct bound half = {1e9, 1e9, 0, 0.9999};

static const struct {
    const char *name;
    const struct bound *bound;
} models[] = {
    {"multiple_input_demo.rk3562", &exact_steps},
    {"multiple_input_demo.rk3566_rk3568", &exact_steps},
    {"multiple_input_demo.rk3576", &exact_steps},
    {"multiple_input_demo.rk3588", &exact_steps},
    {"multiple_input_demo.rv1126b", &exact_steps},
    {"multiple_input_demo_container2.rk3562", &exact_steps},
    {"a_relu.rk3576", &single},
    {"bias_k3.rk3576", &single},
    {"conv2d.rk3576", &single},
    {"dw.rk3576", &single},
    {"dwbig_112.rk3576", &single},
    {"pq_oc.rk3576", &single},
    {"chain.rk3576", &deep},
    {"pp_human_segv2_custom_argmax.rk3562", &classes},
    {"pp_human_segv2_custom_argmax.rk3566_rk3568", &classes},
    {"pp_human_segv2_custom_argmax.rk3576", &classes},
    {"pp_human_segv2_custom_argmax.rk3588", &classes},
    {"test_conv_c1.rk3588", &half},
    {"test_conv_c16.rk3588", &half},
    {"test_bcblock.rk3588", &half},
    {"test_stack_2.rk3588", &half},
    {"sub_after_block1.rk3588", &half},
    {"sub2_after_mul.rk3588", &half},
    {"sub_fix_after_swish.rk3588", &half},
    {"sub_fix_after_pad.rk3588", &half},
    {"BCResNet-t2-simplified.rk3588", &half},
    {"lprnet.rk3568", &deep},
    {"retinaface.rv1106", &clipped},
};

static const char *shared;
static struct npu_device *device;

static struct npu_model *load(const char *name, struct sim_file *file)
{
    struct error e = {0};
    struct npu_model *m = NULL;
    assert_true(sim_file_read(file, "%s/models/rknn/%s.rknn", shared, name));
    struct npu_model_source source = {.file = {file->data, file->size}, .name = name};
    if (npu_backend.model_load(device, &source, &m, &e) < 0)
        fail_msg("%s: %s", name, e.text);
    return m;
}

// How far an output is from its reference.
static void compare(const char *name, uint32_t i, const struct tensor_attr *attr, const void *raw,
                    const struct bound *bound)
{
    struct sim_array reference;
    struct error e = {0};
    assert_true(sim_array_read(&reference, "%s/models/golden/%s.out%u.npy", shared, name, i));
    assert_int_equal(reference.bytes, attr->n_elems * sizeof(float));
    const float *expected = reference.data;
    float *values = malloc(reference.bytes);
    assert_int_equal(convert_to_float(attr, raw, attr->size, values, attr->n_elems, &e), 0);
    double worst = 0, step = attr->qnt == TENSOR_QNT_AFFINE ? (double)attr->scale : 1;
    size_t n_near = 0, n_equal = 0;
    for (size_t k = 0; k < attr->n_elems; k++) {
        double off = fabs((double)values[k] - (double)expected[k]) / step;
        worst = off > worst ? off : worst;
        n_near += off <= bound->near + 1e-3;
        n_equal += off < 0.5;
    }
    double n = attr->n_elems, cosine = sim_cosine(values, expected, attr->n_elems);
    print_message("%s out%u: worst %.4g steps, equal %.4f %%, cosine %.7f\n", name, i, worst,
                  100 * (double)n_equal / n, cosine);
    assert_cmp(worst, <=, bound->steps + 1e-3);
    assert_cmp((double)n_near, >=, bound->share * n);
    assert_cmp(cosine, >=, bound->cosine);
    free(values);
    sim_array_free(&reference);
}

static void run_model(const char *name, const struct bound *bound)
{
    struct sim_file file;
    struct npu_model *m = load(name, &file);
    const struct npu_model_info *info = npu_backend.model_info(m);
    struct sim_array arrays[4];
    struct npu_input inputs[4];
    void *outputs[4];
    struct error e = {0};
    assert_cmp(info->n_inputs, <=, 4);
    assert_cmp(info->n_outputs, <=, 4);
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        assert_true(sim_array_read(&arrays[i], "%s/models/golden/%s.in%u.npy", shared, name, i));
        inputs[i] = (struct npu_input){.data = arrays[i].data,
                                       .size = arrays[i].bytes,
                                       .type = arrays[i].type,
                                       .layout = info->inputs[i].logical.layout};
    }
    if (sim_run(&npu_backend, m, inputs, outputs, &e) < 0)
        fail_msg("%s: %s", name, e.text);
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        compare(name, i, &info->outputs[i].logical, outputs[i], bound);
        free(outputs[i]);
    }
    for (uint32_t i = 0; i < info->n_inputs; i++)
        sim_array_free(&arrays[i]);
    npu_backend.model_free(m);
    sim_file_free(&file);
}

static void shared_model(void **state)
{
    size_t i = *(size_t *)*state;
    run_model(models[i].name, models[i].bound);
}

// ---- refusals ----

static void expect_refusal(const char *name, const char *words)
{
    struct sim_file file;
    struct error e = {0};
    struct npu_model *m = NULL;
    assert_true(sim_file_read(&file, "%s/models/rknn/%s.rknn", shared, name));
    struct npu_model_source source = {.file = {file.data, file.size}, .name = name};
    assert_int_equal(npu_backend.model_load(device, &source, &m, &e), STATUS_MODEL_INVALID);
    assert_non_null(strstr(e.text, words));
    sim_file_free(&file);
}

static void compressed_weights_are_refused(void **state)
{
    (void)state;
    expect_refusal("multiple_input_demo_container2.rk3588", "compressed");
}

static void other_chip_is_refused(void **state)
{
    (void)state;
    struct sim_file file;
    struct error e = {0};
    struct npu_device *other;
    struct npu_model *m = NULL;
    assert_true(
        sim_file_read(&file, "%s/models/rknn/multiple_input_demo.rk3566_rk3568.rknn", shared));
    struct npu_model_source source = {.file = {file.data, file.size}, .name = "demo"};
    assert_int_equal(npu_backend.device_open("rk3588", &other, &e), 0);
    assert_int_equal(npu_backend.model_load(other, &source, &m, &e),
                     STATUS_TARGET_PLATFORM_UNMATCH);
    assert_non_null(strstr(e.text, "rk3588"));
    assert_non_null(strstr(e.text, "rk3566"));
    npu_backend.device_free(other);
    assert_int_equal(npu_backend.device_open("rk3568", &other, &e), 0);
    assert_int_equal(npu_backend.model_load(other, &source, &m, &e), 0);
    npu_backend.model_free(m);
    npu_backend.device_free(other);
    sim_file_free(&file);
}

static void every_file_is_described(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct sim_file file;
        struct error e = {0};
        char *text;
        assert_true(sim_file_read(&file, "%s/models/rknn/%s.rknn", shared, models[i].name));
        struct npu_model_source source = {.file = {file.data, file.size}, .name = models[i].name};
        assert_int_equal(npu_backend.model_describe(device, &source, &text, &e), 0);
        assert_non_null(strstr(text, "\"nodes\""));
        assert_null(strstr(text, "\"refused\""));
        free(text);
        sim_file_free(&file);
    }
}

static void custom_operators_load(void **state)
{
    (void)state;
    static const char *const names[] = {
        "dual_residual_custom.rk3562", "dual_residual_custom.rk3566_rk3568",
        "dual_residual_custom.rk3576", "dual_residual_custom.rk3588",
        "dual_residual_custom.rv1126b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sim_file file;
        npu_backend.model_free(load(names[i], &file));
        sim_file_free(&file);
    }
}

int main(void)
{
    enum { N = sizeof models / sizeof *models };
    static size_t index[N];
    struct CMUnitTest tests[N + 4];
    struct error e;
    shared = sim_shared_folder();
    if (!shared) {
        print_message("skipped: no folder of shared models (RKNND_SHARED)\n");
        return 77;
    }
    if (npu_backend.device_open("", &device, &e) < 0)
        return 1;
    for (size_t i = 0; i < N; i++) {
        index[i] = i;
        tests[i] = (struct CMUnitTest){
            .name = models[i].name, .test_func = shared_model, .initial_state = &index[i]};
    }
    tests[N] = (struct CMUnitTest)cmocka_unit_test(compressed_weights_are_refused);
    tests[N + 1] = (struct CMUnitTest)cmocka_unit_test(other_chip_is_refused);
    tests[N + 2] = (struct CMUnitTest)cmocka_unit_test(every_file_is_described);
    tests[N + 3] = (struct CMUnitTest)cmocka_unit_test(custom_operators_load);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    npu_backend.device_free(device);
    return failed;
}
