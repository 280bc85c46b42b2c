// OpenCL for operators whose target is the GPU. Loaded when the first one comes; no other part of
// rknnd needs it.
#pragma once

#include "base/error.h"
#include "rknn_custom_op.h"

struct opencl;        // a device with its context and command queue
struct opencl_kernel; // of one operator at one node

/// Checks the fields that only such operators have.
int opencl_check(const rknn_custom_op *op, struct error *e);

/// The machine's first GPU, else its first other OpenCL device. STATUS_DEVICE_UNAVAILABLE where
/// there is none. May block.
int opencl_new(struct opencl **ret, struct error *e);
void opencl_free(struct opencl *cl); // after its kernels; NULL is fine

/// Compiles the operator's source (text, or the file that it names when cl_source_size is 0). The
/// words of a failure have the compiler's first lines. May block.
int opencl_kernel_new(struct opencl *cl, const rknn_custom_op *op, struct opencl_kernel **ret,
                      struct error *e);
void opencl_kernel_free(struct opencl_kernel *k);

/// What the operator's callbacks are given.
rknn_gpu_op_context opencl_kernel_context(const struct opencl_kernel *k);
