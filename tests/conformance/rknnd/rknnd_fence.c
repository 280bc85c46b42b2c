// Runs that wait for a fence. A kernel that makes sync_files is not to be had everywhere; rknnd
// waits for any descriptor that becomes readable.
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../conformance.h"

static rknn_context c;

static int run(int fence, int timeout_ms, bool non_block)
{
    rknn_run_extend extend = {
        .fence_fd = fence, .timeout_ms = timeout_ms, .non_block = non_block, .frame_id = 77};
    int r = rknn_run(c, &extend);
    EXPECT_CMP((extend.frame_id == 77), ==, (r != RKNN_SUCC));
    return r;
}

// What another device would do: fills the input, then says so.
static void *work(void *arg)
{
    rknn_query_cmd query = RKNN_QUERY_IN_OUT_NUM;
    rknn_input_output_num n;
    EXPECT_OK(rknn_query(c, query, &n, sizeof n)); // the context is free meanwhile
    conformance_set_inputs(c, "conv");
    EXPECT_CMP(eventfd_write(*(int *)arg, 1), ==, 0);
    return NULL;
}

static void wait_for_another(bool non_block)
{
    pthread_t worker;
    int fence = eventfd(0, 0);
    NEED_CMP(pthread_create(&worker, NULL, work, &fence), ==, 0);
    EXPECT_OK(run(fence, 0, non_block));
    conformance_expect_outputs(c, "conv");
    pthread_join(worker, NULL);
    EXPECT_OK(run(fence, 0, non_block)); // it stays open, and stays there
    conformance_expect_outputs(c, "conv");
    close(fence);
}

static void misuse(void)
{
    int fence = eventfd(0, 0), closed = eventfd(1, 0);
    close(closed);
    EXPECT_REFUSED(RKNN_ERR_TIMEOUT, "in time", run(fence, 1, false));
    EXPECT_REFUSED(RKNN_ERR_TIMEOUT, "in time", run(fence, 1, true));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "no fence", run(closed, 0, false));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "fence", run(-2, 0, false));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "fence", rknn_run(c, NULL));
    close(fence);
}

int main(int argc, char **argv)
{
    size_t size;
    rknn_context none;
    conformance_start(argc, argv);
    void *model = conformance_file(&size, "conv.rknn");
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "fence",
                   rknn_init(&none, model, (uint32_t)size, RKNN_FLAG_FENCE_OUT_OUTSIDE, NULL));
    free(model);
    c = conformance_open("conv.rknn", RKNN_FLAG_FENCE_IN_OUTSIDE);
    wait_for_another(false);
    wait_for_another(true);
    misuse();
    EXPECT_OK(run(-1, 0, false));
    conformance_expect_outputs(c, "conv");
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
