// The do-nothing backend, loaded as the service loads it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "npu/module.h"

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

static void repeats_its_input(void **state)
{
    (void)state;
    struct npu_module m = {0};
    struct error e = {0};
    assert_int_equal(npu_module_open(&m, MODULE_DIR, "null", &e), 0);
    struct npu_device *device;
    assert_int_equal(m.backend->device_open("3:8", &device, &e), 0);
    struct npu_model *model;
    struct npu_model_source source = {.file = {(const uint8_t *)"x", 1}, .name = "x"};
    assert_int_equal(m.backend->model_load(device, &source, &model, &e), 0);
    assert_int_equal(m.backend->model_info(model)->outputs[0].logical.n_elems, 8);
    struct npu_context *context;
    assert_int_equal(m.backend->context_new(model, &context, &e), 0);

    char out[8];
    int status = 1;
    struct npu_input input = {.data = "abc", .size = 3, .type = TENSOR_UINT8};
    struct npu_output output = {.data = out, .size = 8};
    struct npu_job job = {.inputs = &input,
                          .outputs = &output,
                          .core_mask = 1,
                          .collect_perf = true,
                          .done = note_done,
                          .owner = &status};
    assert_int_equal(m.backend->context_submit(context, &job, &e), 0);
    assert_int_equal(status, 0);
    assert_memory_equal(out, "abcabcab", 8);
    size_t n;
    m.backend->context_layers(context, &n);
    assert_int_equal(n, 1);

    input.size = 2;
    status = 1;
    assert_int_equal(m.backend->context_submit(context, &job, &e), STATUS_INPUT_INVALID);
    assert_int_equal(status, 1);

    m.backend->context_free(context);
    m.backend->model_free(model);
    m.backend->device_free(device);
    npu_module_close(&m);
}

static void refuses_bad_names_and_options(void **state)
{
    (void)state;
    struct npu_module m = {0};
    struct error e = {0};
    assert_int_equal(npu_module_open(&m, MODULE_DIR, "../null", &e), STATUS_PARAM_INVALID);
    assert_int_equal(npu_module_open(&m, MODULE_DIR, "absent", &e), STATUS_DEVICE_UNAVAILABLE);
    assert_int_equal(npu_module_open(&m, MODULE_DIR, "null", &e), 0);
    static const char *const bad[] = {"3", "3:", "0:4", "3:4,", "3:4,speed=1", "99999999999:1"};
    struct npu_device *device = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(m.backend->device_open(bad[i], &device, &e), STATUS_PARAM_INVALID);
    npu_module_close(&m);
}

static void refuses_stale_modules(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
    } stale[] = {
        {"stale_unversioned", "is older than the versions of the backend interface"},
        {"stale_old", "has version 0 of the backend interface, and rknnd"},
        {"stale_new", "has version 99 of the backend interface, and rknnd"},
        {"stale_table", "was built with another struct npu_backend than rknnd"},
        {"stale_job", "was built with another struct npu_job than rknnd"},
    };
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
        struct npu_module m = {0};
        struct error e = {0};
        assert_int_equal(npu_module_open(&m, STALE_DIR, stale[i].name, &e),
                         STATUS_DEVICE_UNAVAILABLE);
        assert_non_null(strstr(e.text, stale[i].name));
        assert_non_null(strstr(e.text, stale[i].words));
        assert_non_null(strstr(e.text, "of one release, and restart rknnd"));
        assert_null(m.library);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_its_input),
        cmocka_unit_test(refuses_bad_names_and_options),
        cmocka_unit_test(refuses_stale_modules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
