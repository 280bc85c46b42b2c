// Dynamic shapes.
#include "client/later.h"
#include "rknn_api.h"

RKNN_EXPORT int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr)
{
    (void)ctx, (void)attr;
    return later_status("rknn_set_input_shape");
}

RKNN_EXPORT int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr attr[])
{
    (void)ctx, (void)n_inputs, (void)attr;
    return later_status("rknn_set_input_shapes");
}
