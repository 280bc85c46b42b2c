// The layout of the RKNN C API on a 64-bit machine, held when this file is compiled: sizes,
// alignments, offsets, types, values, prototypes. What runs is only the inline helpers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rknn_api.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"

#define SAME(a, b) __builtin_types_compatible_p(a, b)
#define STRUCT(type, size, alignment)                                                              \
    _Static_assert(sizeof(type) == (size) && _Alignof(type) == (alignment), #type)
#define FIELD(type, field, offset, field_type)                                                     \
    _Static_assert(offsetof(type, field) == (offset) &&                                            \
                       SAME(__typeof__(((type *)0)->field), __typeof__(field_type)),               \
                   #type "." #field)
#define VALUE(name, value) _Static_assert((name) == (value), #name)
#define FUNCTION(name, result, ...)                                                                \
    _Static_assert(SAME(__typeof__(&name), result (*)(__VA_ARGS__)), #name)

typedef int (*op_step)(rknn_custom_op_context *, rknn_custom_op_tensor *, uint32_t,
                       rknn_custom_op_tensor *, uint32_t);
typedef int (*op_end)(rknn_custom_op_context *);

#ifdef __arm__
_Static_assert(SAME(rknn_context, uint32_t), "rknn_context");
#else
_Static_assert(SAME(rknn_context, uint64_t), "rknn_context");
#endif
_Static_assert(SAME(rknn_matmul_ctx, rknn_context), "rknn_matmul_ctx");

#ifdef __LP64__
STRUCT(rknn_input_output_num, 8, 4);
FIELD(rknn_input_output_num, n_input, 0, uint32_t);
FIELD(rknn_input_output_num, n_output, 4, uint32_t);

STRUCT(rknn_tensor_attr, 376, 4);
FIELD(rknn_tensor_attr, index, 0, uint32_t);
FIELD(rknn_tensor_attr, n_dims, 4, uint32_t);
FIELD(rknn_tensor_attr, dims, 8, uint32_t[RKNN_MAX_DIMS]);
FIELD(rknn_tensor_attr, name, 72, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_tensor_attr, n_elems, 328, uint32_t);
FIELD(rknn_tensor_attr, size, 332, uint32_t);
FIELD(rknn_tensor_attr, fmt, 336, rknn_tensor_format);
FIELD(rknn_tensor_attr, type, 340, rknn_tensor_type);
FIELD(rknn_tensor_attr, qnt_type, 344, rknn_tensor_qnt_type);
FIELD(rknn_tensor_attr, fl, 348, int8_t);
FIELD(rknn_tensor_attr, zp, 352, int32_t);
FIELD(rknn_tensor_attr, scale, 356, float);
FIELD(rknn_tensor_attr, w_stride, 360, uint32_t);
FIELD(rknn_tensor_attr, size_with_stride, 364, uint32_t);
FIELD(rknn_tensor_attr, pass_through, 368, uint8_t);
FIELD(rknn_tensor_attr, h_stride, 372, uint32_t);

STRUCT(rknn_input_range, 33040, 4);
FIELD(rknn_input_range, index, 0, uint32_t);
FIELD(rknn_input_range, shape_number, 4, uint32_t);
FIELD(rknn_input_range, fmt, 8, rknn_tensor_format);
FIELD(rknn_input_range, name, 12, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_input_range, dyn_range, 268, uint32_t[RKNN_MAX_DYNAMIC_SHAPE_NUM][RKNN_MAX_DIMS]);
FIELD(rknn_input_range, n_dims, 33036, uint32_t);

STRUCT(rknn_perf_detail, 16, 8);
FIELD(rknn_perf_detail, perf_data, 0, char *);
FIELD(rknn_perf_detail, data_len, 8, uint64_t);

STRUCT(rknn_perf_run, 8, 8);
FIELD(rknn_perf_run, run_duration, 0, int64_t);

STRUCT(rknn_sdk_version, 512, 1);
FIELD(rknn_sdk_version, api_version, 0, char[256]);
FIELD(rknn_sdk_version, drv_version, 256, char[256]);

STRUCT(rknn_mem_size, 64, 8);
FIELD(rknn_mem_size, total_weight_size, 0, uint32_t);
FIELD(rknn_mem_size, total_internal_size, 4, uint32_t);
FIELD(rknn_mem_size, total_dma_allocated_size, 8, uint64_t);
FIELD(rknn_mem_size, total_sram_size, 16, uint32_t);
FIELD(rknn_mem_size, free_sram_size, 20, uint32_t);
FIELD(rknn_mem_size, reserved, 24, uint32_t[10]);

STRUCT(rknn_custom_string, 1024, 1);
FIELD(rknn_custom_string, string, 0, char[1024]);

STRUCT(rknn_tensor_mem, 40, 8);
FIELD(rknn_tensor_mem, virt_addr, 0, void *);
FIELD(rknn_tensor_mem, phys_addr, 8, uint64_t);
FIELD(rknn_tensor_mem, fd, 16, int32_t);
FIELD(rknn_tensor_mem, offset, 20, int32_t);
FIELD(rknn_tensor_mem, size, 24, uint32_t);
FIELD(rknn_tensor_mem, flags, 28, uint32_t);
FIELD(rknn_tensor_mem, priv_data, 32, void *);

STRUCT(rknn_input, 32, 8);
FIELD(rknn_input, index, 0, uint32_t);
FIELD(rknn_input, buf, 8, void *);
FIELD(rknn_input, size, 16, uint32_t);
FIELD(rknn_input, pass_through, 20, uint8_t);
FIELD(rknn_input, type, 24, rknn_tensor_type);
FIELD(rknn_input, fmt, 28, rknn_tensor_format);

STRUCT(rknn_output, 24, 8);
FIELD(rknn_output, want_float, 0, uint8_t);
FIELD(rknn_output, is_prealloc, 1, uint8_t);
FIELD(rknn_output, index, 4, uint32_t);
FIELD(rknn_output, buf, 8, void *);
FIELD(rknn_output, size, 16, uint32_t);

STRUCT(rknn_init_extend, 136, 8);
FIELD(rknn_init_extend, ctx, 0, rknn_context);
FIELD(rknn_init_extend, real_model_offset, 8, int32_t);
FIELD(rknn_init_extend, real_model_size, 12, uint32_t);
FIELD(rknn_init_extend, model_buffer_fd, 16, int32_t);
FIELD(rknn_init_extend, model_buffer_flags, 20, uint32_t);
FIELD(rknn_init_extend, reserved, 24, uint8_t[112]);

STRUCT(rknn_run_extend, 24, 8);
FIELD(rknn_run_extend, frame_id, 0, uint64_t);
FIELD(rknn_run_extend, non_block, 8, int32_t);
FIELD(rknn_run_extend, timeout_ms, 12, int32_t);
FIELD(rknn_run_extend, fence_fd, 16, int32_t);

STRUCT(rknn_output_extend, 8, 8);
FIELD(rknn_output_extend, frame_id, 0, uint64_t);

STRUCT(rknn_quant_params, 288, 8);
FIELD(rknn_quant_params, name, 0, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_quant_params, scale, 256, float *);
FIELD(rknn_quant_params, scale_len, 264, int32_t);
FIELD(rknn_quant_params, zp, 272, int32_t *);
FIELD(rknn_quant_params, zp_len, 280, int32_t);

STRUCT(rknn_matmul_tensor_attr, 332, 4);
FIELD(rknn_matmul_tensor_attr, name, 0, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_matmul_tensor_attr, n_dims, 256, uint32_t);
FIELD(rknn_matmul_tensor_attr, dims, 260, uint32_t[RKNN_MAX_DIMS]);
FIELD(rknn_matmul_tensor_attr, size, 324, uint32_t);
FIELD(rknn_matmul_tensor_attr, type, 328, rknn_tensor_type);

STRUCT(rknn_matmul_io_attr, 996, 4);
FIELD(rknn_matmul_io_attr, A, 0, rknn_matmul_tensor_attr);
FIELD(rknn_matmul_io_attr, B, 332, rknn_matmul_tensor_attr);
FIELD(rknn_matmul_io_attr, C, 664, rknn_matmul_tensor_attr);

STRUCT(rknn_matmul_shape, 12, 4);
FIELD(rknn_matmul_shape, M, 0, int32_t);
FIELD(rknn_matmul_shape, K, 4, int32_t);
FIELD(rknn_matmul_shape, N, 8, int32_t);

STRUCT(rknn_matmul_info, 64, 4);
FIELD(rknn_matmul_info, M, 0, int32_t);
FIELD(rknn_matmul_info, K, 4, int32_t);
FIELD(rknn_matmul_info, N, 8, int32_t);
FIELD(rknn_matmul_info, type, 12, rknn_matmul_type);
FIELD(rknn_matmul_info, B_layout, 16, int16_t);
FIELD(rknn_matmul_info, B_quant_type, 18, int16_t);
FIELD(rknn_matmul_info, AC_layout, 20, int16_t);
FIELD(rknn_matmul_info, AC_quant_type, 22, int16_t);
FIELD(rknn_matmul_info, iommu_domain_id, 24, int32_t);
FIELD(rknn_matmul_info, group_size, 28, int16_t);
FIELD(rknn_matmul_info, reserved, 30, int8_t[34]);

STRUCT(rknn_gpu_op_context, 24, 8);
FIELD(rknn_gpu_op_context, cl_context, 0, void *);
FIELD(rknn_gpu_op_context, cl_command_queue, 8, void *);
FIELD(rknn_gpu_op_context, cl_kernel, 16, void *);

STRUCT(rknn_custom_op_context, 48, 8);
FIELD(rknn_custom_op_context, target, 0, rknn_target_type);
FIELD(rknn_custom_op_context, internal_ctx, 8, rknn_custom_op_interal_context);
FIELD(rknn_custom_op_context, gpu_ctx, 16, rknn_gpu_op_context);
FIELD(rknn_custom_op_context, priv_data, 40, void *);

STRUCT(rknn_custom_op_tensor, 416, 8);
FIELD(rknn_custom_op_tensor, attr, 0, rknn_tensor_attr);
FIELD(rknn_custom_op_tensor, mem, 376, rknn_tensor_mem);

STRUCT(rknn_custom_op_attr, 272, 8);
FIELD(rknn_custom_op_attr, name, 0, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_custom_op_attr, dtype, 256, rknn_tensor_type);
FIELD(rknn_custom_op_attr, n_elems, 260, uint32_t);
FIELD(rknn_custom_op_attr, data, 264, void *);

STRUCT(rknn_custom_op, 832, 8);
FIELD(rknn_custom_op, version, 0, uint32_t);
FIELD(rknn_custom_op, target, 4, rknn_target_type);
FIELD(rknn_custom_op, op_type, 8, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_custom_op, cl_kernel_name, 264, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_custom_op, cl_kernel_source, 520, char *);
FIELD(rknn_custom_op, cl_source_size, 528, uint64_t);
FIELD(rknn_custom_op, cl_build_options, 536, char[RKNN_MAX_NAME_LEN]);
FIELD(rknn_custom_op, init, 792, op_step);
FIELD(rknn_custom_op, prepare, 800, op_step);
FIELD(rknn_custom_op, compute, 808, op_step);
FIELD(rknn_custom_op, compute_native, 816, op_step);
FIELD(rknn_custom_op, destroy, 824, op_end);
#endif

_Static_assert(sizeof(rknn_query_cmd) == 4, "rknn_query_cmd");
VALUE(RKNN_QUERY_IN_OUT_NUM, 0);
VALUE(RKNN_QUERY_INPUT_ATTR, 1);
VALUE(RKNN_QUERY_OUTPUT_ATTR, 2);
VALUE(RKNN_QUERY_PERF_DETAIL, 3);
VALUE(RKNN_QUERY_PERF_RUN, 4);
VALUE(RKNN_QUERY_SDK_VERSION, 5);
VALUE(RKNN_QUERY_MEM_SIZE, 6);
VALUE(RKNN_QUERY_CUSTOM_STRING, 7);
VALUE(RKNN_QUERY_NATIVE_INPUT_ATTR, 8);
VALUE(RKNN_QUERY_NATIVE_OUTPUT_ATTR, 9);
VALUE(RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR, 8);
VALUE(RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR, 9);
VALUE(RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR, 10);
VALUE(RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, 11);
VALUE(RKNN_QUERY_DEVICE_MEM_INFO, 12);
VALUE(RKNN_QUERY_INPUT_DYNAMIC_RANGE, 13);
VALUE(RKNN_QUERY_CURRENT_INPUT_ATTR, 14);
VALUE(RKNN_QUERY_CURRENT_OUTPUT_ATTR, 15);
VALUE(RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, 16);
VALUE(RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR, 17);
VALUE(RKNN_QUERY_CMD_MAX, 18);

_Static_assert(sizeof(rknn_tensor_type) == 4, "rknn_tensor_type");
VALUE(RKNN_TENSOR_FLOAT32, 0);
VALUE(RKNN_TENSOR_FLOAT16, 1);
VALUE(RKNN_TENSOR_INT8, 2);
VALUE(RKNN_TENSOR_UINT8, 3);
VALUE(RKNN_TENSOR_INT16, 4);
VALUE(RKNN_TENSOR_UINT16, 5);
VALUE(RKNN_TENSOR_INT32, 6);
VALUE(RKNN_TENSOR_UINT32, 7);
VALUE(RKNN_TENSOR_INT64, 8);
VALUE(RKNN_TENSOR_BOOL, 9);
VALUE(RKNN_TENSOR_INT4, 10);
VALUE(RKNN_TENSOR_BFLOAT16, 11);
VALUE(RKNN_TENSOR_TYPE_MAX, 12);

_Static_assert(sizeof(rknn_tensor_qnt_type) == 4, "rknn_tensor_qnt_type");
VALUE(RKNN_TENSOR_QNT_NONE, 0);
VALUE(RKNN_TENSOR_QNT_DFP, 1);
VALUE(RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC, 2);
VALUE(RKNN_TENSOR_QNT_MAX, 3);

_Static_assert(sizeof(rknn_tensor_format) == 4, "rknn_tensor_format");
VALUE(RKNN_TENSOR_NCHW, 0);
VALUE(RKNN_TENSOR_NHWC, 1);
VALUE(RKNN_TENSOR_NC1HWC2, 2);
VALUE(RKNN_TENSOR_UNDEFINED, 3);
VALUE(RKNN_TENSOR_FORMAT_MAX, 4);

_Static_assert(sizeof(rknn_core_mask) == 4, "rknn_core_mask");
VALUE(RKNN_NPU_CORE_AUTO, 0);
VALUE(RKNN_NPU_CORE_0, 1);
VALUE(RKNN_NPU_CORE_1, 2);
VALUE(RKNN_NPU_CORE_2, 4);
VALUE(RKNN_NPU_CORE_0_1, 3);
VALUE(RKNN_NPU_CORE_0_1_2, 7);
VALUE(RKNN_NPU_CORE_ALL, 65535);
VALUE(RKNN_NPU_CORE_UNDEFINED, 65536);

_Static_assert(sizeof(rknn_tensor_mem_flags) == 4, "rknn_tensor_mem_flags");
VALUE(RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE, 1);
VALUE(RKNN_TENSOR_MEMORY_FLAGS_FROM_FD, 2);
VALUE(RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS, 3);
VALUE(RKNN_TENSOR_MEMORY_FLAGS_UNKNOWN, 4);

_Static_assert(sizeof(rknn_mem_alloc_flags) == 4, "rknn_mem_alloc_flags");
VALUE(RKNN_FLAG_MEMORY_FLAGS_DEFAULT, 0);
VALUE(RKNN_FLAG_MEMORY_CACHEABLE, 1);
VALUE(RKNN_FLAG_MEMORY_NON_CACHEABLE, 2);
VALUE(RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM, 4);

_Static_assert(sizeof(rknn_mem_sync_mode) == 4, "rknn_mem_sync_mode");
VALUE(RKNN_MEMORY_SYNC_TO_DEVICE, 1);
VALUE(RKNN_MEMORY_SYNC_FROM_DEVICE, 2);
VALUE(RKNN_MEMORY_SYNC_BIDIRECTIONAL, 3);

_Static_assert(sizeof(rknn_matmul_quant_type) == 4, "rknn_matmul_quant_type");
VALUE(RKNN_QUANT_TYPE_PER_LAYER_SYM, 0);
VALUE(RKNN_QUANT_TYPE_PER_LAYER_ASYM, 1);
VALUE(RKNN_QUANT_TYPE_PER_CHANNEL_SYM, 2);
VALUE(RKNN_QUANT_TYPE_PER_CHANNEL_ASYM, 3);
VALUE(RKNN_QUANT_TYPE_PER_GROUP_SYM, 4);
VALUE(RKNN_QUANT_TYPE_PER_GROUP_ASYM, 5);

_Static_assert(sizeof(rknn_matmul_type) == 4, "rknn_matmul_type");
VALUE(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32, 1);
VALUE(RKNN_INT8_MM_INT8_TO_INT32, 2);
VALUE(RKNN_INT8_MM_INT8_TO_INT8, 3);
VALUE(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16, 4);
VALUE(RKNN_FLOAT16_MM_INT8_TO_FLOAT32, 5);
VALUE(RKNN_FLOAT16_MM_INT8_TO_FLOAT16, 6);
VALUE(RKNN_FLOAT16_MM_INT4_TO_FLOAT32, 7);
VALUE(RKNN_FLOAT16_MM_INT4_TO_FLOAT16, 8);
VALUE(RKNN_INT8_MM_INT8_TO_FLOAT32, 9);
VALUE(RKNN_INT4_MM_INT4_TO_INT16, 10);
VALUE(RKNN_INT8_MM_INT4_TO_INT32, 11);
VALUE(RKNN_FLOAT16_MM_INT4_TO_BFLOAT16, 12);
VALUE(RKNN_INT8_MM_INT4_TO_FLOAT16, 15);

_Static_assert(sizeof(rknn_matmul_layout) == 4, "rknn_matmul_layout");
VALUE(RKNN_MM_LAYOUT_NORM, 0);
VALUE(RKNN_MM_LAYOUT_NATIVE, 1);
VALUE(RKNN_MM_LAYOUT_TP_NORM, 2);

_Static_assert(sizeof(rknn_target_type) == 4, "rknn_target_type");
VALUE(RKNN_TARGET_TYPE_CPU, 1);
VALUE(RKNN_TARGET_TYPE_GPU, 2);
VALUE(RKNN_TARGET_TYPE_MAX, 3);

VALUE(RKNN_FLAG_PRIOR_HIGH, 0);
VALUE(RKNN_FLAG_PRIOR_MEDIUM, 1);
VALUE(RKNN_FLAG_PRIOR_LOW, 2);
VALUE(RKNN_FLAG_ASYNC_MASK, 4);
VALUE(RKNN_FLAG_COLLECT_PERF_MASK, 8);
VALUE(RKNN_FLAG_MEM_ALLOC_OUTSIDE, 16);
VALUE(RKNN_FLAG_SHARE_WEIGHT_MEM, 32);
VALUE(RKNN_FLAG_FENCE_IN_OUTSIDE, 64);
VALUE(RKNN_FLAG_FENCE_OUT_OUTSIDE, 128);
VALUE(RKNN_FLAG_COLLECT_MODEL_INFO_ONLY, 256);
VALUE(RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE, 512);
VALUE(RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU, 1024);
VALUE(RKNN_FLAG_ENABLE_SRAM, 2048);
VALUE(RKNN_FLAG_SHARE_SRAM, 4096);
VALUE(RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY, 8192);
VALUE(RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE, 16384);
VALUE(RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE, 32768);
VALUE(RKNN_FLAG_MODEL_BUFFER_ZERO_COPY, 65536);
VALUE(RKNN_MEM_FLAG_ALLOC_NO_CONTEXT, 131072);
VALUE(RKNN_SUCC, 0);
VALUE(RKNN_ERR_FAIL, -1);
VALUE(RKNN_ERR_TIMEOUT, -2);
VALUE(RKNN_ERR_DEVICE_UNAVAILABLE, -3);
VALUE(RKNN_ERR_MALLOC_FAIL, -4);
VALUE(RKNN_ERR_PARAM_INVALID, -5);
VALUE(RKNN_ERR_MODEL_INVALID, -6);
VALUE(RKNN_ERR_CTX_INVALID, -7);
VALUE(RKNN_ERR_INPUT_INVALID, -8);
VALUE(RKNN_ERR_OUTPUT_INVALID, -9);
VALUE(RKNN_ERR_DEVICE_UNMATCH, -10);
VALUE(RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL, -11);
VALUE(RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION, -12);
VALUE(RKNN_ERR_TARGET_PLATFORM_UNMATCH, -13);
VALUE(RKNN_MAX_DIMS, 16);
VALUE(RKNN_MAX_NUM_CHANNEL, 15);
VALUE(RKNN_MAX_NAME_LEN, 256);
VALUE(RKNN_MAX_DYNAMIC_SHAPE_NUM, 512);
VALUE(RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE, -14);
VALUE(RKNN_CUSTOM_OP_MAX_STR_LEN, 64);
VALUE(RKNN_CUSTOM_OP_MAX_VALUE_LEN, 32);

// Functions
FUNCTION(rknn_init, int, rknn_context *, void *, uint32_t, uint32_t, rknn_init_extend *);
FUNCTION(rknn_dup_context, int, rknn_context *, rknn_context *);
FUNCTION(rknn_destroy, int, rknn_context);
FUNCTION(rknn_query, int, rknn_context, rknn_query_cmd, void *, uint32_t);
FUNCTION(rknn_inputs_set, int, rknn_context, uint32_t, rknn_input *);
FUNCTION(rknn_set_batch_core_num, int, rknn_context, int);
FUNCTION(rknn_set_core_mask, int, rknn_context, rknn_core_mask);
FUNCTION(rknn_run, int, rknn_context, rknn_run_extend *);
FUNCTION(rknn_wait, int, rknn_context, rknn_run_extend *);
FUNCTION(rknn_outputs_get, int, rknn_context, uint32_t, rknn_output *, rknn_output_extend *);
FUNCTION(rknn_outputs_release, int, rknn_context, uint32_t, rknn_output *);
FUNCTION(rknn_create_mem_from_phys, rknn_tensor_mem *, rknn_context, uint64_t, void *, uint32_t);
FUNCTION(rknn_create_mem_from_fd, rknn_tensor_mem *, rknn_context, int32_t, void *, uint32_t,
         int32_t);
FUNCTION(rknn_create_mem_from_mb_blk, rknn_tensor_mem *, rknn_context, void *, int32_t);
FUNCTION(rknn_create_mem, rknn_tensor_mem *, rknn_context, uint32_t);
FUNCTION(rknn_create_mem2, rknn_tensor_mem *, rknn_context, uint64_t, uint64_t);
FUNCTION(rknn_destroy_mem, int, rknn_context, rknn_tensor_mem *);
FUNCTION(rknn_set_weight_mem, int, rknn_context, rknn_tensor_mem *);
FUNCTION(rknn_set_internal_mem, int, rknn_context, rknn_tensor_mem *);
FUNCTION(rknn_set_io_mem, int, rknn_context, rknn_tensor_mem *, rknn_tensor_attr *);
FUNCTION(rknn_set_input_shape, int, rknn_context, rknn_tensor_attr *);
FUNCTION(rknn_set_input_shapes, int, rknn_context, uint32_t, rknn_tensor_attr *);
FUNCTION(rknn_mem_sync, int, rknn_context, rknn_tensor_mem *, rknn_mem_sync_mode);

FUNCTION(rknn_matmul_create, int, rknn_matmul_ctx *, rknn_matmul_info *, rknn_matmul_io_attr *);
FUNCTION(rknn_matmul_create_dynamic_shape, int, rknn_matmul_ctx *, rknn_matmul_info *, int,
         rknn_matmul_shape *, rknn_matmul_io_attr *);
FUNCTION(rknn_matmul_set_io_mem, int, rknn_matmul_ctx, rknn_tensor_mem *,
         rknn_matmul_tensor_attr *);
FUNCTION(rknn_matmul_set_core_mask, int, rknn_matmul_ctx, rknn_core_mask);
FUNCTION(rknn_matmul_set_quant_params, int, rknn_matmul_ctx, rknn_quant_params *);
FUNCTION(rknn_matmul_get_quant_params, int, rknn_matmul_ctx, rknn_quant_params *, float *);
FUNCTION(rknn_matmul_set_dynamic_shape, int, rknn_matmul_ctx, rknn_matmul_shape *);
FUNCTION(rknn_matmul_run, int, rknn_matmul_ctx);
FUNCTION(rknn_matmul_destroy, int, rknn_matmul_ctx);
FUNCTION(rknn_B_normal_layout_to_native_layout, int, void *, void *, int, int, rknn_matmul_info *);

FUNCTION(rknn_register_custom_ops, int, rknn_context, rknn_custom_op *, uint32_t);
FUNCTION(rknn_custom_op_get_op_attr, void, rknn_custom_op_context *, const char *,
         rknn_custom_op_attr *);

static void types_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"FP32",   "FP16",  "INT8",   "UINT8", "INT16",
                                        "UINT16", "INT32", "UINT32", "INT64", "BOOL",
                                        "INT4",   "BF16",  "UNKNOW"};
    for (int i = 0; i <= RKNN_TENSOR_TYPE_MAX; i++)
        assert_string_equal(get_type_string((rknn_tensor_type)i), names[i]);
}

static void formats_and_quantizations_have_names(void **state)
{
    (void)state;
    static const char *const formats[] = {"NCHW", "NHWC", "NC1HWC2", "UNDEFINED", "UNKNOW"};
    static const char *const quantizations[] = {"NONE", "DFP", "AFFINE", "UNKNOW"};
    for (int i = 0; i <= RKNN_TENSOR_FORMAT_MAX; i++)
        assert_string_equal(get_format_string((rknn_tensor_format)i), formats[i]);
    for (int i = 0; i <= RKNN_TENSOR_QNT_MAX; i++)
        assert_string_equal(get_qnt_type_string((rknn_tensor_qnt_type)i), quantizations[i]);
}

static void multiplications_have_names(void **state)
{
    (void)state;
#define NAMED(type) assert_string_equal(get_matmul_type_string(type), #type)
    NAMED(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32);
    NAMED(RKNN_INT8_MM_INT8_TO_INT32);
    NAMED(RKNN_INT8_MM_INT8_TO_INT8);
    NAMED(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16);
    NAMED(RKNN_FLOAT16_MM_INT8_TO_FLOAT32);
    NAMED(RKNN_FLOAT16_MM_INT8_TO_FLOAT16);
    NAMED(RKNN_FLOAT16_MM_INT4_TO_FLOAT32);
    NAMED(RKNN_FLOAT16_MM_INT4_TO_FLOAT16);
    NAMED(RKNN_INT8_MM_INT8_TO_FLOAT32);
    NAMED(RKNN_INT4_MM_INT4_TO_INT16);
    NAMED(RKNN_INT8_MM_INT4_TO_INT32);
    NAMED(RKNN_FLOAT16_MM_INT4_TO_BFLOAT16);
    NAMED(RKNN_INT8_MM_INT4_TO_FLOAT16);
    assert_string_equal(get_matmul_type_string((rknn_matmul_type)13), "UNKNOW");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(formats_and_quantizations_have_names),
        cmocka_unit_test(multiplications_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
