// On a chip with one core there is nothing to choose: an error, and runs go on.
#include "../conformance.h"

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c = conformance_open("other_chip.rknn", 0);
    EXPECT_CODE(RKNN_ERR_TARGET_PLATFORM_UNMATCH, rknn_set_core_mask(c, RKNN_NPU_CORE_0));
    EXPECT_CODE(RKNN_ERR_TARGET_PLATFORM_UNMATCH, rknn_set_core_mask(c, RKNN_NPU_CORE_ALL));
    EXPECT_CODE(RKNN_ERR_TARGET_PLATFORM_UNMATCH, rknn_set_core_mask(c, RKNN_NPU_CORE_AUTO));
    EXPECT_CMP(rknn_set_batch_core_num(c, 1), <, 0);
    conformance_set_inputs(c, "other_chip");
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "other_chip");
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
