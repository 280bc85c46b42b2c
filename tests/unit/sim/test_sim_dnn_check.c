// dnn_check() against a library that spoils one sum, one whose convolutions fail, and the real one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/dnn/dnn_check.h"

static enum { AS_IT_IS, SPOILS, FAILS } library;

dnnl_status_t __real_dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                            int n_args, const dnnl_exec_arg_t *args);
dnnl_status_t __wrap_dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                            int n_args, const dnnl_exec_arg_t *args);

dnnl_status_t __wrap_dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                            int n_args, const dnnl_exec_arg_t *args)
{
    if (library == FAILS)
        return dnnl_runtime_error;
    dnnl_status_t status = __real_dnnl_primitive_execute(primitive, stream, n_args, args);
    void *written = NULL;
    for (int i = 0; i < n_args; i++)
        if (args[i].arg == DNNL_ARG_DST)
            dnnl_memory_get_data_handle(args[i].memory, &written);
    if (library == SPOILS && n_args == 3 && written) // the convolution, not the reorder before it
        ((float *)written)[500] += 1;
    return status;
}

static int check(struct error *e)
{
    dnnl_engine_t engine;
    assert_int_equal(dnnl_engine_create(&engine, dnnl_cpu, 0), dnnl_success);
    int r = dnn_check(engine, e);
    dnnl_engine_destroy(engine);
    return r;
}

static void refuses_until_it_is_right(void **state)
{
    (void)state;
    struct error e;
    library = FAILS;
    assert_int_equal(check(&e), STATUS_DEVICE_UNAVAILABLE);
    library = SPOILS;
    assert_int_equal(check(&e), STATUS_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(e.text, "ONEDNN_MAX_CPU_ISA"));
    library = AS_IT_IS;
    assert_int_equal(check(&e), 0);
    library = FAILS;
    assert_int_equal(check(&e), 0); // once is enough
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses_until_it_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
