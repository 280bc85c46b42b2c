// Custom operators of several contexts at once, from several threads; some threads share a context.
#include <pthread.h>

#include "custom_ops.h"

#define N_THREADS 8
#define N_LOOPS   8

static rknn_context shared;

// A context of its own, duplicated on the way.
static void *run_alone(void *blocks)
{
    rknn_custom_op op = custom_op_residual();
    rknn_run_extend extend = {.non_block = !blocks};
    rknn_context c = conformance_open("custom.rknn", 0), copy;
    EXPECT_OK(rknn_register_custom_ops(c, &op, 1));
    NEED_OK(rknn_dup_context(&c, &copy));
    rknn_context both[] = {c, copy};
    for (int i = 0; i < 2; i++)
        conformance_set_inputs(both[i], "custom");
    for (int i = 0; i < N_LOOPS; i++) {
        EXPECT_OK(rknn_run(c, &extend));
        EXPECT_OK(rknn_run(copy, &extend));
        conformance_expect_outputs(c, "custom");
        conformance_expect_outputs(copy, "custom");
    }
    EXPECT_OK(rknn_destroy(copy));
    EXPECT_OK(rknn_destroy(c));
    return NULL;
}

// Inputs and outputs of a shared context are everybody's; here they are always the same.
static void *run_shared(void *blocks)
{
    rknn_run_extend extend = {.non_block = !blocks};
    for (int i = 0; i < N_LOOPS; i++) {
        conformance_set_inputs(shared, "custom_int64");
        EXPECT_OK(rknn_run(shared, &extend));
        conformance_expect_outputs(shared, "custom_int64");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[N_THREADS];
    rknn_custom_op ops[] = {custom_op_shift(), custom_op_argmax()};
    conformance_start(argc, argv);
    shared = conformance_open("custom_int64.rknn", 0);
    EXPECT_OK(rknn_register_custom_ops(shared, ops, 2));
    conformance_set_inputs(shared, "custom_int64");
    for (int i = 0; i < N_THREADS; i++)
        NEED_CMP(pthread_create(&threads[i], NULL, i % 2 ? run_shared : run_alone,
                                i & 2 ? &threads[i] : NULL),
                 ==, 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_OK(rknn_destroy(shared));
    struct calls calls = custom_ops_calls();
    EXPECT_CMP(calls.init, ==, calls.destroy);
    EXPECT_CMP(calls.prepare, ==, calls.compute);
    return conformance_finish();
}
