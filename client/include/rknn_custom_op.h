// Operators that a program brings along for its models. Binary-compatible with runtime 2.3.2 of the
// vendor; the SDK guide, section 5.5, describes their use.
#ifndef _RKNN_CUSTOM_OP_H
#define _RKNN_CUSTOM_OP_H

#include "rknn_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RKNN_CUSTOM_OP_MAX_STR_LEN   64
#define RKNN_CUSTOM_OP_MAX_VALUE_LEN 32

// An init() that returns this hands an operator that the runtime knows back to it.
#define RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE -14

typedef enum _rknn_target_type {
    RKNN_TARGET_TYPE_CPU = 1,
    RKNN_TARGET_TYPE_GPU = 2, // OpenCL
    RKNN_TARGET_TYPE_MAX
} rknn_target_type;

typedef struct _rknn_gpu_op_context {
    void *cl_context;
    void *cl_command_queue;
    void *cl_kernel;
} rknn_gpu_op_context;

typedef void *rknn_custom_op_interal_context;

typedef struct _rknn_custom_op_context {
    rknn_target_type target;
    rknn_custom_op_interal_context internal_ctx; // the library's
    rknn_gpu_op_context gpu_ctx;
    void *priv_data; // the operator's own
} rknn_custom_op_context;

// Data are NCHW at mem.virt_addr + mem.offset.
typedef struct _rknn_custom_op_tensor {
    rknn_tensor_attr attr;
    rknn_tensor_mem mem;
} rknn_custom_op_tensor;

typedef struct _rknn_custom_op_attr {
    char name[RKNN_MAX_NAME_LEN];
    rknn_tensor_type dtype;
    uint32_t n_elems; // 0: there is no such attribute
    void *data;
} rknn_custom_op_attr;

// One operator. Callbacks that are NULL are not called; compute is needed. They answer 0 or a
// negative RKNN_ERR_*.
typedef struct _rknn_custom_op {
    uint32_t version;
    rknn_target_type target;
    char op_type[RKNN_MAX_NAME_LEN]; // "cstSoftmax"
    char cl_kernel_name[RKNN_MAX_NAME_LEN];
    char *cl_kernel_source;
    uint64_t cl_source_size; // 0: cl_kernel_source is a path
    char cl_build_options[RKNN_MAX_NAME_LEN];
    int (*init)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*prepare)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                   uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*compute)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                   uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*compute_native)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                          uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*destroy)(rknn_custom_op_context *op_ctx);
} rknn_custom_op;

// What a plugin library (librkcst_*.so) exports under the name get_rknn_custom_op.
typedef rknn_custom_op *(*get_custom_op_func)(void);

/// Registers `custom_op_num` operators with a context: after rknn_init, before the first run.
int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num);

/// Looks an attribute of the node up by name, from inside a callback. n_elems is 0 when it is not
/// there; "name" is the node's own name.
void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                                rknn_custom_op_attr *op_attr);

#ifdef __cplusplus
}
#endif

#endif
