// rknn_register_custom_ops; callbacks.c does it. (rknn_custom_op_get_op_attr is in custom/: plugins
// use it, too.)
#include "client/api/callbacks.h"
#include "client/last_error.h"

RKNN_EXPORT int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op,
                                         uint32_t custom_op_num)
{
    struct error e;
    return last_error_keep("rknn_register_custom_ops",
                           callbacks_register(ctx, op, custom_op_num, &e), &e);
}
