// Matrix multiplication.
#include "client/later.h"
#include "rknn_matmul_api.h"

RKNN_EXPORT int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info,
                                   rknn_matmul_io_attr *io_attr)
{
    (void)ctx, (void)info, (void)io_attr;
    return later_status("rknn_matmul_create");
}

RKNN_EXPORT int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info,
                                                 int shape_num, rknn_matmul_shape dynamic_shapes[],
                                                 rknn_matmul_io_attr io_attrs[])
{
    (void)ctx, (void)info, (void)shape_num, (void)dynamic_shapes, (void)io_attrs;
    return later_status("rknn_matmul_create_dynamic_shape");
}

RKNN_EXPORT int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem *mem,
                                       rknn_matmul_tensor_attr *attr)
{
    (void)ctx, (void)mem, (void)attr;
    return later_status("rknn_matmul_set_io_mem");
}

RKNN_EXPORT int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask)
{
    (void)context, (void)core_mask;
    return later_status("rknn_matmul_set_core_mask");
}

RKNN_EXPORT int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *params)
{
    (void)context, (void)params;
    return later_status("rknn_matmul_set_quant_params");
}

RKNN_EXPORT int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params,
                                             float *scale)
{
    (void)ctx, (void)params, (void)scale;
    return later_status("rknn_matmul_get_quant_params");
}

RKNN_EXPORT int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape *shape)
{
    (void)ctx, (void)shape;
    return later_status("rknn_matmul_set_dynamic_shape");
}

RKNN_EXPORT int rknn_matmul_run(rknn_matmul_ctx ctx)
{
    (void)ctx;
    return later_status("rknn_matmul_run");
}

RKNN_EXPORT int rknn_matmul_destroy(rknn_matmul_ctx ctx)
{
    (void)ctx;
    return later_status("rknn_matmul_destroy");
}

RKNN_EXPORT int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N,
                                                      rknn_matmul_info *info)
{
    (void)B_input, (void)B_output, (void)K, (void)N, (void)info;
    return later_status("rknn_B_normal_layout_to_native_layout");
}
