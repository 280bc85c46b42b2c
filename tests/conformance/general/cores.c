// Core masks and batches: every mask that the chip has gives the same outputs.
#include "../conformance.h"

static const rknn_core_mask masks[] = {RKNN_NPU_CORE_AUTO, RKNN_NPU_CORE_0,   RKNN_NPU_CORE_1,
                                       RKNN_NPU_CORE_2,    RKNN_NPU_CORE_0_1, RKNN_NPU_CORE_0_1_2,
                                       RKNN_NPU_CORE_ALL,  RKNN_NPU_CORE_AUTO};

static void run(rknn_context c, const char *name)
{
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, name);
}

static void expect_cores(rknn_context c, int n)
{
    uint32_t cores = conformance_cores(c);
    if (cores)
        conformance_check(__builtin_popcount(cores) == n, __FILE__, __LINE__,
                          "ran on cores 0x%x, not on %d", cores, n);
}

static void use_masks(void)
{
    rknn_context c = conformance_open("residual.rknn", 0);
    conformance_set_inputs(c, "residual");
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        EXPECT_OK(rknn_set_core_mask(c, masks[i]));
        run(c, "residual");
        expect_cores(c, masks[i] == RKNN_NPU_CORE_ALL    ? 3
                        : masks[i] == RKNN_NPU_CORE_AUTO ? 1
                                                         : __builtin_popcount(masks[i]));
    }
    EXPECT_OK(rknn_destroy(c));
}

// Sizes are those of all pictures together (SDK guide 5.6.3).
static void use_batch(void)
{
    rknn_context c = conformance_open("batch.rknn", 0);
    rknn_tensor_attr *a = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    EXPECT_CMP(a[0].dims[0], ==, 3);
    EXPECT_CMP(a[0].n_elems, ==, 3 * 8 * 8 * 3);
    free(a);
    conformance_set_inputs(c, "batch");
    run(c, "batch");
    expect_cores(c, 3);
    for (int n = 1; n <= 3; n++) {
        EXPECT_OK(rknn_set_batch_core_num(c, n));
        run(c, "batch");
        expect_cores(c, n);
    }
    EXPECT_OK(rknn_set_core_mask(c, RKNN_NPU_CORE_1));
    run(c, "batch");
    expect_cores(c, 1);
    EXPECT_OK(rknn_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    use_masks();
    use_batch();
    return conformance_finish();
}
