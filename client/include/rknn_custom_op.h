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

// In front of get_rknn_custom_op(): visible also when the plugin is built with -fvisibility=hidden.
#define RKNN_CUSTOM_OP_EXPORT __attribute__((visibility("default")))

// An init() that returns this hands an operator that the runtime knows back to it.
#define RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE (-14)

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

#ifdef __arm__
typedef uint32_t rknn_custom_op_interal_context;
#else
typedef uint64_t rknn_custom_op_interal_context;
#endif

typedef struct _rknn_custom_op_context {
    rknn_target_type target;
    rknn_custom_op_interal_context internal_ctx; // the library's
    rknn_gpu_op_context gpu_ctx;
    void *priv_data; // the operator's own
} rknn_custom_op_context;

// Data of a tensor: NCHW float32, `offset` bytes behind virt_addr; for the CPU int64 where the
// model says so (for the GPU float32 there, too, which is rounded to the nearest afterwards). The
// library's; valid during the callback.
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

// One operator. Only compute is needed; the other callbacks may be NULL. They answer 0 or a
// negative RKNN_ERR_*, which fails the registration or the run. A context calls one at a time, from
// any thread: init when the operator is registered, prepare and compute at each run in this order,
// destroy when the context ends.
typedef struct _rknn_custom_op {
    uint32_t version;
    rknn_target_type target;
    char op_type[RKNN_MAX_NAME_LEN];        // as in the model: "cstSoftmax"
    char cl_kernel_name[RKNN_MAX_NAME_LEN]; // this and the next three: for the GPU only
    char *cl_kernel_source;
    uint64_t cl_source_size; // bytes of cl_kernel_source; 0: it is a path
    char cl_build_options[RKNN_MAX_NAME_LEN];
    int (*init)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*prepare)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*compute)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    // reserved: NULL
    int (*compute_native)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                          uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
    int (*destroy)(rknn_custom_op_context *op_ctx);
} rknn_custom_op;

// What a plugin library (librkcst_*.so) exports under the name get_rknn_custom_op.
typedef rknn_custom_op *(*get_custom_op_func)(void);

/// Registers operators with a context, after rknn_init() and before the first run (one that failed
/// does not count). The array is not needed any more when this returns; what its pointers point to
/// is, until the context ends.
int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num);

/// Looks an attribute of the node up by name, from inside a callback: fills name, dtype, n_elems
/// and data, which is the library's and valid until the context ends. n_elems is 0 when there is
/// none; "name" is the node's own name, in UINT8.
void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                                rknn_custom_op_attr *op_attr);

#ifdef __cplusplus
}
#endif

#endif
