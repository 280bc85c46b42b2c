// rknnd does not know where .rknn files keep their other shapes, and says so. The vendor's library
// runs such files: this is about ours.
#include "../conformance.h"
#include "rknnd.h"

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c;
    size_t size;
    void *model = conformance_file(&size, "dynamic_rknn.rknn");
    EXPECT_CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&c, model, (uint32_t)size, 0, NULL));
    EXPECT_CMP(strstr(rknnd_last_error(), "dynamic shapes"), !=, NULL);
    free(model);
    return conformance_finish();
}
