// Operators that the program brings along.
#include "client/later.h"
#include "rknn_custom_op.h"

RKNN_EXPORT int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op,
                                         uint32_t custom_op_num)
{
    (void)ctx, (void)op, (void)custom_op_num;
    return later_status("rknn_register_custom_ops");
}

RKNN_EXPORT void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                                            rknn_custom_op_attr *op_attr)
{
    (void)op_ctx, (void)attr_name;
    if (op_attr)
        op_attr->n_elems = 0;
    later_status("rknn_custom_op_get_op_attr");
}
