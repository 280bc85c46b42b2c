// How a model gets a list of shapes from rknnd: ONNX models, with load options. A file that was
// converted with dynamic_input needs none of this.
#include "../conformance.h"
#include "rknnd.h"

rknn_context conformance_open_shape_sets(const char *name, const char *shape_sets, uint32_t flags)
{
    char file[128];
    snprintf(file, sizeof file, "%s.onnx", name);
    NEED_OK(rknnd_set_load_options(shape_sets));
    rknn_context c = conformance_open(file, flags);
    EXPECT_OK(rknnd_set_load_options(NULL));
    return c;
}
