// What programs of the SDK's kind write with its headers, in C and in C++: a plugin of an operator,
// declarations of structs in front, handles kept as numbers, an old name. Built by test_headers.py.
#include <stdio.h>
#include <string.h>

#include "rknn_api.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"

#ifdef __cplusplus
extern "C" {
#endif
RKNN_CUSTOM_OP_EXPORT rknn_custom_op *get_rknn_custom_op(void);
int use_matmul(struct rknn_matmul_info_t *info);
int use_memory(rknn_context c);
#ifdef __cplusplus
}
#endif

struct of_an_operator {
    rknn_custom_op_interal_context handle;
    struct _rknn_tensor_attr attr;
    struct _rknn_tensor_memory *memory;
};

static int remember(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                    rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    static struct of_an_operator kept;
    rknn_custom_op_attr axis;
    rknn_custom_op_get_op_attr(c, "axis", &axis);
    kept.handle = c->internal_ctx;
    kept.attr = inputs[0].attr;
    kept.memory = &outputs[0].mem;
    printf("%llu: %s %s %s, %s\n", (unsigned long long)(kept.handle + 0), kept.attr.name,
           get_type_string(kept.attr.type), get_format_string(kept.attr.fmt),
           get_qnt_type_string(kept.attr.qnt_type));
    return n_inputs > 0 && n_outputs > 0 && axis.n_elems < 2 ? 0 : RKNN_ERR_PARAM_INVALID;
}

static rknn_custom_op user_op;

RKNN_CUSTOM_OP_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    get_custom_op_func self = get_rknn_custom_op;
    memset(&user_op, 0, sizeof(rknn_custom_op));
    strncpy(user_op.op_type, "cstSoftmax", RKNN_MAX_NAME_LEN - 1);
    user_op.version = 1;
    user_op.target = RKNN_TARGET_TYPE_CPU;
    user_op.init = remember;
    user_op.compute = remember;
    return self ? &user_op : NULL;
}

int use_matmul(struct rknn_matmul_info_t *info)
{
    rknn_matmul_ctx c = 0;
    rknn_matmul_io_attr io;
    info->type = RKNN_INT8_MM_INT8_TO_INT32;
    puts(get_matmul_type_string(info->type));
    int r = rknn_matmul_create(&c, info, &io);
    return r < 0 ? r : rknn_matmul_destroy(c);
}

int use_memory(rknn_context c)
{
    rknn_tensor_mem *mem = rknn_create_mem(c, 64);
    return mem ? rknn_destory_mem(c, mem) : RKNN_ERR_MALLOC_FAIL;
}
