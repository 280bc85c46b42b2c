// Threads with a stack of 64 KB, which is what the library's manual asks for: each call in one of
// its own, on a context that all of them share.
#include <pthread.h>

#include "../conformance.h"
#include "rknn_matmul_api.h"

#define STACK_BYTES (64u << 10)
#define NAME        "residual"

static rknn_context context;
static void *model;
static size_t model_size;

static void init(void)
{
    NEED_OK(rknn_init(&context, model, (uint32_t)model_size, 0, NULL));
}

static void init_badly(void)
{
    rknn_context c;
    EXPECT_CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&c, (char *)"/nowhere/a.rknn", 0, 0, NULL));
    EXPECT_CMP(rknn_init(&c, model, (uint32_t)model_size / 2, 0, NULL), <, 0);
}

static void query(void)
{
    static rknn_input_range range;
    rknn_perf_detail detail;
    rknn_perf_run run;
    rknn_sdk_version version;
    rknn_mem_size size;
    rknn_custom_string text;
    free(conformance_attrs(context, RKNN_QUERY_INPUT_ATTR));
    free(conformance_attrs(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR));
    EXPECT_OK(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    EXPECT_OK(rknn_query(context, RKNN_QUERY_MEM_SIZE, &size, sizeof size));
    EXPECT_OK(rknn_query(context, RKNN_QUERY_CUSTOM_STRING, &text, sizeof text));
    EXPECT_OK(rknn_query(context, RKNN_QUERY_PERF_RUN, &run, sizeof run));
    EXPECT_OK(rknn_query(context, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
    EXPECT_CMP(rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range), <, 0);
}

static void set_inputs(void)
{
    conformance_set_inputs(context, NAME);
}

static void run(void)
{
    rknn_run_extend extend = {.non_block = 1};
    EXPECT_OK(rknn_run(context, NULL));
    EXPECT_OK(rknn_run(context, &extend));
    EXPECT_OK(rknn_wait(context, NULL));
}

static void get_outputs(void)
{
    conformance_expect_outputs(context, NAME);
}

static void use_memory(void)
{
    rknn_tensor_attr *a = conformance_attrs(context, RKNN_QUERY_INPUT_ATTR);
    rknn_tensor_mem *mem = rknn_create_mem(context, a->size_with_stride);
    NEED(mem);
    EXPECT_OK(rknn_set_io_mem(context, mem, a));
    EXPECT_OK(rknn_run(context, NULL));
    EXPECT_OK(rknn_destroy_mem(context, mem));
    free(a);
}

static void duplicate(void)
{
    rknn_context copy;
    NEED_OK(rknn_dup_context(&context, &copy));
    EXPECT_OK(rknn_destroy(copy));
}

static void multiply(void)
{
    static rknn_matmul_io_attr io;
    rknn_matmul_info info = {.M = 1, .K = 64, .N = 64, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_ctx product;
    if (!EXPECT_OK(rknn_matmul_create(&product, &info, &io)))
        return;
    rknn_tensor_mem *a = rknn_create_mem(product, io.A.size);
    rknn_tensor_mem *b = rknn_create_mem(product, io.B.size);
    rknn_tensor_mem *c = rknn_create_mem(product, io.C.size);
    NEED(a);
    NEED(b);
    NEED(c);
    EXPECT_OK(rknn_matmul_set_io_mem(product, a, &io.A));
    EXPECT_OK(rknn_matmul_set_io_mem(product, b, &io.B));
    EXPECT_OK(rknn_matmul_set_io_mem(product, c, &io.C));
    EXPECT_OK(rknn_matmul_run(product));
    EXPECT_OK(rknn_matmul_destroy(product));
    EXPECT_OK(rknn_destroy_mem(context, a));
    EXPECT_OK(rknn_destroy_mem(context, b));
    EXPECT_OK(rknn_destroy_mem(context, c));
}

static void destroy(void)
{
    EXPECT_OK(rknn_destroy(context));
}

static void (*const steps[])(void) = {init_badly, init,       set_inputs, run,      get_outputs,
                                      query,      use_memory, duplicate,  multiply, destroy};

static void *begin(void *step)
{
    (*(void (*const *)(void))step)();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_attr_t small;
    conformance_start(argc, argv);
    model = conformance_file(&model_size, NAME ".rknn");
    NEED_CMP(pthread_attr_init(&small), ==, 0);
    NEED_CMP(pthread_attr_setstacksize(&small, STACK_BYTES), ==, 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        pthread_t thread;
        NEED_CMP(pthread_create(&thread, &small, begin, (void *)&steps[i]), ==, 0);
        pthread_join(thread, NULL);
    }
    free(model);
    return conformance_finish();
}
