// RV1103 and RV1106: what the vendor's library for these chips does not have, ours has where it
// can, and refuses the rest.
#include "../conformance.h"
#include "rknn_matmul_api.h"

#define NAME "small_chip"

static void run(rknn_context c)
{
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_current_outputs(c, NAME);
}

// The general flow, in which the model's native forms do not show.
static void set_inputs(rknn_context c)
{
    rknn_tensor_attr *a = conformance_attrs(c, RKNN_QUERY_CURRENT_INPUT_ATTR);
    EXPECT_CMP(a[0].fmt, ==, RKNN_TENSOR_NHWC);
    free(a);
    conformance_set_inputs(c, NAME);
}

static void measure(rknn_context c)
{
    rknn_perf_run run = {.run_duration = -1};
    rknn_perf_detail detail = {0};
    EXPECT_OK(rknn_query(c, RKNN_QUERY_PERF_RUN, &run, sizeof run));
    EXPECT_OK(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
    EXPECT_CMP(run.run_duration, >=, 0);
    EXPECT_CMP(detail.data_len, >, 0);
}

static void refuse(rknn_context c)
{
    static char room[sizeof(rknn_input_range)];
    rknn_matmul_info info = {.M = 1, .K = 64, .N = 64, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx product;
    EXPECT_REFUSED(RKNN_ERR_FAIL, "device memory info",
                   rknn_query(c, RKNN_QUERY_DEVICE_MEM_INFO, room, sizeof room));
    EXPECT_REFUSED(RKNN_ERR_FAIL, "fixed",
                   rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, room, sizeof(rknn_input_range)));
    EXPECT_REFUSED(RKNN_ERR_TARGET_PLATFORM_UNMATCH, "one core",
                   rknn_set_core_mask(c, RKNN_NPU_CORE_0));
    EXPECT_REFUSED(RKNN_ERR_TARGET_PLATFORM_UNMATCH, "one core", rknn_set_batch_core_num(c, 1));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "rv1106", rknn_matmul_create(&product, &info, &io));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context copy, c = conformance_open(NAME ".rknn", RKNN_FLAG_COLLECT_PERF_MASK);
    set_inputs(c);
    run(c);
    measure(c);
    NEED_OK(rknn_dup_context(&c, &copy));
    set_inputs(copy);
    run(copy);
    EXPECT_OK(rknn_destroy(copy));
    refuse(c);
    run(c);
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
