// The RKNN C API: run `.rknn` models on a Rockchip NPU, here or across a connection.
//
// Binary-compatible with runtime 2.3.2 of the vendor: the same symbols, the same layout of every
// struct, the same numbers. What the calls do is described in the vendor's "RKNN SDK User Guide";
// the comments here give the contract in short, and where rknnd goes further.
//
// Functions return RKNN_SUCC or a negative RKNN_ERR_*; rknnd_last_error() (rknnd.h) has words.
// Different contexts may be used from different threads at the same time; calls on one context wait
// for each other.
#ifndef _RKNN_API_H
#define _RKNN_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- flags of rknn_init

#define RKNN_FLAG_PRIOR_HIGH   0x00000000 // priority of the context's runs; the default
#define RKNN_FLAG_PRIOR_MEDIUM 0x00000001
#define RKNN_FLAG_PRIOR_LOW    0x00000002

#define RKNN_FLAG_ASYNC_MASK                        0x00000004 // outputs are those of the run before
#define RKNN_FLAG_COLLECT_PERF_MASK                 0x00000008 // times of every layer
#define RKNN_FLAG_MEM_ALLOC_OUTSIDE                 0x00000010 // all memory comes from the program
#define RKNN_FLAG_SHARE_WEIGHT_MEM                  0x00000020 // weights of extend->ctx
#define RKNN_FLAG_FENCE_IN_OUTSIDE                  0x00000040 // rknn_run first waits for run_extend.fence_fd
#define RKNN_FLAG_FENCE_OUT_OUTSIDE                 0x00000080 // not offered: rknn_init refuses it
#define RKNN_FLAG_COLLECT_MODEL_INFO_ONLY           0x00000100 // answers only RKNN_QUERY_MEM_SIZE
#define RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE            0x00000200 // internal memory from the program
#define RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU 0x00000400 // what the NPU cannot do: GPU first
#define RKNN_FLAG_ENABLE_SRAM                       0x00000800 // internal memory in SRAM if it fits
#define RKNN_FLAG_SHARE_SRAM                        0x00001000 // share SRAM with extend->ctx
#define RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY        0x00002000 // leave the process's nice value alone
#define RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE     0x00004000 // the program does rknn_mem_sync
#define RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE    0x00008000
#define RKNN_FLAG_MODEL_BUFFER_ZERO_COPY            0x00010000 // the model's buffer is used in place
#define RKNN_MEM_FLAG_ALLOC_NO_CONTEXT              0x00020000 // rknn_create_mem2 with context 0

// ---- results

#define RKNN_SUCC                                       0
#define RKNN_ERR_FAIL                                   (-1)
#define RKNN_ERR_TIMEOUT                                (-2)
#define RKNN_ERR_DEVICE_UNAVAILABLE                     (-3) // no server, or it is gone
#define RKNN_ERR_MALLOC_FAIL                            (-4)
#define RKNN_ERR_PARAM_INVALID                          (-5)
#define RKNN_ERR_MODEL_INVALID                          (-6)
#define RKNN_ERR_CTX_INVALID                            (-7)
#define RKNN_ERR_INPUT_INVALID                          (-8)
#define RKNN_ERR_OUTPUT_INVALID                         (-9)
#define RKNN_ERR_DEVICE_UNMATCH                         (-10) // library and server do not fit
#define RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL          (-11)
#define RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION (-12)
#define RKNN_ERR_TARGET_PLATFORM_UNMATCH                (-13) // the model is for another chip

// ---- bounds

#define RKNN_MAX_DIMS              16
#define RKNN_MAX_NUM_CHANNEL       15
#define RKNN_MAX_NAME_LEN          256
#define RKNN_MAX_DYNAMIC_SHAPE_NUM 512

#ifdef __arm__
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

// ---- what rknn_query answers

typedef enum _rknn_query_cmd {
    RKNN_QUERY_IN_OUT_NUM = 0,                // rknn_input_output_num
    RKNN_QUERY_INPUT_ATTR = 1,                // rknn_tensor_attr; its index chooses the tensor
    RKNN_QUERY_OUTPUT_ATTR = 2,               // rknn_tensor_attr
    RKNN_QUERY_PERF_DETAIL = 3,               // rknn_perf_detail: a table of the layers
    RKNN_QUERY_PERF_RUN = 4,                  // rknn_perf_run
    RKNN_QUERY_SDK_VERSION = 5,               // rknn_sdk_version
    RKNN_QUERY_MEM_SIZE = 6,                  // rknn_mem_size
    RKNN_QUERY_CUSTOM_STRING = 7,             // rknn_custom_string
    RKNN_QUERY_NATIVE_INPUT_ATTR = 8,         // rknn_tensor_attr: the form the NPU works with
    RKNN_QUERY_NATIVE_OUTPUT_ATTR = 9,        // rknn_tensor_attr
    RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR = 8, // other names of the two above
    RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR = 9,
    RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR = 10,  // rknn_tensor_attr
    RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR = 11, // rknn_tensor_attr
    RKNN_QUERY_DEVICE_MEM_INFO = 12,         // has no published struct: RKNN_ERR_FAIL
    RKNN_QUERY_INPUT_DYNAMIC_RANGE = 13,     // rknn_input_range
    RKNN_QUERY_CURRENT_INPUT_ATTR = 14,      // rknn_tensor_attr of the shape that is set
    RKNN_QUERY_CURRENT_OUTPUT_ATTR = 15,
    RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR = 16,
    RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17,
    RKNN_QUERY_CMD_MAX
} rknn_query_cmd;

typedef enum _rknn_tensor_type {
    RKNN_TENSOR_FLOAT32 = 0,
    RKNN_TENSOR_FLOAT16 = 1,
    RKNN_TENSOR_INT8 = 2,
    RKNN_TENSOR_UINT8 = 3,
    RKNN_TENSOR_INT16 = 4,
    RKNN_TENSOR_UINT16 = 5,
    RKNN_TENSOR_INT32 = 6,
    RKNN_TENSOR_UINT32 = 7,
    RKNN_TENSOR_INT64 = 8,
    RKNN_TENSOR_BOOL = 9,
    RKNN_TENSOR_INT4 = 10,
    RKNN_TENSOR_BFLOAT16 = 11,
    RKNN_TENSOR_TYPE_MAX
} rknn_tensor_type;

static inline const char *get_type_string(rknn_tensor_type type)
{
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
        return "FP32";
    case RKNN_TENSOR_FLOAT16:
        return "FP16";
    case RKNN_TENSOR_INT8:
        return "INT8";
    case RKNN_TENSOR_UINT8:
        return "UINT8";
    case RKNN_TENSOR_INT16:
        return "INT16";
    case RKNN_TENSOR_UINT16:
        return "UINT16";
    case RKNN_TENSOR_INT32:
        return "INT32";
    case RKNN_TENSOR_UINT32:
        return "UINT32";
    case RKNN_TENSOR_INT64:
        return "INT64";
    case RKNN_TENSOR_BOOL:
        return "BOOL";
    case RKNN_TENSOR_INT4:
        return "INT4";
    case RKNN_TENSOR_BFLOAT16:
        return "BF16";
    default:
        return "UNKNOW";
    }
}

typedef enum _rknn_tensor_qnt_type {
    RKNN_TENSOR_QNT_NONE = 0,
    RKNN_TENSOR_QNT_DFP = 1,               // real = stored * 2^-fl
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2, // real = (stored - zp) * scale
    RKNN_TENSOR_QNT_MAX
} rknn_tensor_qnt_type;

static inline const char *get_qnt_type_string(rknn_tensor_qnt_type type)
{
    switch (type) {
    case RKNN_TENSOR_QNT_NONE:
        return "NONE";
    case RKNN_TENSOR_QNT_DFP:
        return "DFP";
    case RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC:
        return "AFFINE";
    default:
        return "UNKNOW";
    }
}

typedef enum _rknn_tensor_format {
    RKNN_TENSOR_NCHW = 0,
    RKNN_TENSOR_NHWC = 1,
    RKNN_TENSOR_NC1HWC2 = 2, // channels in blocks of C2
    RKNN_TENSOR_UNDEFINED = 3,
    RKNN_TENSOR_FORMAT_MAX
} rknn_tensor_format;

static inline const char *get_format_string(rknn_tensor_format fmt)
{
    switch (fmt) {
    case RKNN_TENSOR_NCHW:
        return "NCHW";
    case RKNN_TENSOR_NHWC:
        return "NHWC";
    case RKNN_TENSOR_NC1HWC2:
        return "NC1HWC2";
    case RKNN_TENSOR_UNDEFINED:
        return "UNDEFINED";
    default:
        return "UNKNOW";
    }
}

// Which cores a run may use (SDK guide 5.3).
typedef enum _rknn_core_mask {
    RKNN_NPU_CORE_AUTO = 0, // any idle core
    RKNN_NPU_CORE_0 = 1,
    RKNN_NPU_CORE_1 = 2,
    RKNN_NPU_CORE_2 = 4,
    RKNN_NPU_CORE_0_1 = RKNN_NPU_CORE_0 | RKNN_NPU_CORE_1,
    RKNN_NPU_CORE_0_1_2 = RKNN_NPU_CORE_0_1 | RKNN_NPU_CORE_2,
    RKNN_NPU_CORE_ALL = 0xffff,
    RKNN_NPU_CORE_UNDEFINED
} rknn_core_mask;

typedef struct _rknn_input_output_num {
    uint32_t n_input;
    uint32_t n_output;
} rknn_input_output_num;

// A tensor. The caller of rknn_query sets `index`.
typedef struct _rknn_tensor_attr {
    uint32_t index;
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS];
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_elems;
    uint32_t size; // bytes, without stride
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl;  // RKNN_TENSOR_QNT_DFP
    int32_t zp; // RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC
    float scale;
    uint32_t w_stride;         // columns (not bytes) from row to row; 0: the width
    uint32_t size_with_stride; // bytes
    uint8_t pass_through;      // for rknn_set_io_mem: the data is in the native form already
    uint32_t h_stride;         // rows; 0: the height
} rknn_tensor_attr;

// Shapes that an input may take.
typedef struct _rknn_input_range {
    uint32_t index;
    uint32_t shape_number;
    rknn_tensor_format fmt;
    char name[RKNN_MAX_NAME_LEN];
    uint32_t dyn_range[RKNN_MAX_DYNAMIC_SHAPE_NUM][RKNN_MAX_DIMS];
    uint32_t n_dims;
} rknn_input_range;

// Text that belongs to the context; valid until its next query or its end.
typedef struct _rknn_perf_detail {
    char *perf_data;
    uint64_t data_len;
} rknn_perf_detail;

typedef struct _rknn_perf_run {
    int64_t run_duration; // microseconds
} rknn_perf_run;

typedef struct _rknn_sdk_version {
    char api_version[256];
    char drv_version[256];
} rknn_sdk_version;

// Bytes. A program built before the struct grew passes its first 8 bytes.
typedef struct _rknn_mem_size {
    uint32_t total_weight_size;
    uint32_t total_internal_size;
    uint64_t total_dma_allocated_size;
    uint32_t total_sram_size;
    uint32_t free_sram_size;
    uint32_t reserved[10];
} rknn_mem_size;

typedef struct _rknn_custom_string {
    char string[1024];
} rknn_custom_string;

// ---- memory

typedef enum _rknn_tensor_mem_flags {
    RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE = 1, // made by rknn_create_mem or _mem2
    RKNN_TENSOR_MEMORY_FLAGS_FROM_FD = 2,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS = 3,
    RKNN_TENSOR_MEMORY_FLAGS_UNKNOWN
} rknn_tensor_mem_flags;

typedef enum _rknn_mem_alloc_flags {
    RKNN_FLAG_MEMORY_FLAGS_DEFAULT = 0, // cacheable
    RKNN_FLAG_MEMORY_CACHEABLE = 1 << 0,
    RKNN_FLAG_MEMORY_NON_CACHEABLE = 1 << 1,
    RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM = 1 << 2
} rknn_mem_alloc_flags;

typedef enum _rknn_mem_sync_mode {
    RKNN_MEMORY_SYNC_TO_DEVICE = 0x1,
    RKNN_MEMORY_SYNC_FROM_DEVICE = 0x2,
    RKNN_MEMORY_SYNC_BIDIRECTIONAL = RKNN_MEMORY_SYNC_TO_DEVICE | RKNN_MEMORY_SYNC_FROM_DEVICE
} rknn_mem_sync_mode;

// Memory for a tensor, weights or intermediate results. Freed by rknn_destroy_mem.
typedef struct _rknn_tensor_memory {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    int32_t offset; // of the data from virt_addr
    uint32_t size;  // bytes
    uint32_t flags; // rknn_tensor_mem_flags
    void *priv_data;
} rknn_tensor_mem;

// ---- inputs, outputs, runs

typedef struct _rknn_input {
    uint32_t index;
    void *buf;            // the program's; read by rknn_inputs_set and not needed afterwards
    uint32_t size;        // bytes of buf
    uint8_t pass_through; // 1: buf is in the native form; type and fmt do not matter
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;

typedef struct _rknn_output {
    uint8_t want_float;  // 1: as float32, else the model's own type
    uint8_t is_prealloc; // 1: buf and size are the program's; else set by rknn_outputs_get
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

typedef struct _rknn_init_extend {
    rknn_context ctx;          // to share weights or SRAM with
    int32_t real_model_offset; // the model is this part of the file or buffer; size 0: all
    uint32_t real_model_size;
    int32_t model_buffer_fd; // RKNN_FLAG_MODEL_BUFFER_ZERO_COPY
    uint32_t model_buffer_flags;
    uint8_t reserved[112];
} rknn_init_extend;

typedef struct _rknn_run_extend {
    uint64_t frame_id;  // out: number of this run
    int32_t non_block;  // 1: return at once; rknn_wait or rknn_outputs_get wait
    int32_t timeout_ms; // of a wait; 0 or less: no limit of the program's own
    int32_t fence_fd;   // RKNN_FLAG_FENCE_IN_OUTSIDE: what the run waits for; -1: nothing
} rknn_run_extend;

typedef struct _rknn_output_extend {
    uint64_t frame_id; // out: the run that the outputs are of
} rknn_output_extend;

// ---- functions

/// Opens a context.
///
/// `context`  set on success, untouched otherwise
/// `model`    the model's bytes, not needed any more when this returns; with `size` 0 the path of
///            the file, which may be larger than 2 GB
/// `flag`     RKNN_FLAG_*, combined with |
/// `extend`   NULL, or which part of the file the model is, or the context to share with
///
/// Returns when the server has loaded the model. RKNN_ERR_DEVICE_UNAVAILABLE: no server.
/// RKNN_ERR_MODEL_INVALID: no such file, not a model, or one that would not run correctly.
/// RKNN_ERR_TARGET_PLATFORM_UNMATCH: a model for another chip. RKNN_ERR_PARAM_INVALID: a flag
/// that is unknown or not offered.
int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
              rknn_init_extend *extend);

/// Opens a second context of the same model: weights are shared, inputs and outputs its own. Not
/// for models with dynamic shapes.
int rknn_dup_context(rknn_context *context_in, rknn_context *context_out);

/// Ends a context and frees what it holds; a run in flight is cancelled. The number is worth
/// nothing afterwards: RKNN_ERR_CTX_INVALID.
int rknn_destroy(rknn_context context);

/// Fills `info`, whose struct depends on `cmd`. `size` is the struct's size as the program was
/// compiled; the smaller ones of older headers are accepted, anything else is
/// RKNN_ERR_PARAM_INVALID.
/// On RV1103 and RV1106, where the vendor offers zero copy only, RKNN_QUERY_INPUT_ATTR and
/// OUTPUT_ATTR give the native attributes, and the CURRENT ones those of rknn_inputs_set and
/// rknn_outputs_get, which work there, too.
int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size);

/// Sets inputs of the runs that follow, converted as `type`, `fmt` and the model ask for. The
/// buffers are not needed any more when this returns. An input that is not set again keeps its
/// value. Of `buf` as many bytes are read as the tensor has in `type` (with pass_through: in the
/// native form), also when `size` is larger. RKNN_ERR_PARAM_INVALID: it is smaller.
/// RKNN_ERR_INPUT_INVALID: type, layout or index do not fit the model.
int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]);

/// How many cores the pictures of a model with rknn_batch_size > 1 spread over: 1 to the chip's
/// number, which is also what it is before. A run takes fewer while others are busy. Takes back
/// rknn_set_core_mask(). RKNN_ERR_PARAM_INVALID for other models,
/// RKNN_ERR_TARGET_PLATFORM_UNMATCH on chips with one core.
int rknn_set_batch_core_num(rknn_context context, int core_num);

/// Cores for the context's runs from now on. RKNN_ERR_TARGET_PLATFORM_UNMATCH, as with the vendor's
/// library, on chips with one core: there is nothing to choose, and runs continue as before.
int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask);

/// Runs the model with the inputs that are set. `extend` may be NULL: wait for the end. On return
/// extend->frame_id is the run's number. RKNN_ERR_INPUT_INVALID: an input was never set.
/// With RKNN_FLAG_FENCE_IN_OUTSIDE it waits first, also with non_block, until extend->fence_fd (a
/// sync_file, or any descriptor that becomes readable) says that the inputs are there; that
/// descriptor stays the program's. RKNN_ERR_TIMEOUT after timeout_ms: nothing was run.
int rknn_run(rknn_context context, rknn_run_extend *extend);

/// Waits for a run: that of extend->frame_id, or the last one with 0 or NULL. RKNN_ERR_TIMEOUT
/// after extend->timeout_ms; the run continues and may be waited for again.
int rknn_wait(rknn_context context, rknn_run_extend *extend);

/// Gets outputs of the last run that was waited for, or waits for the one in flight. Each output
/// says by `index` which it is. When an index comes twice all are taken to be in order instead:
/// outputs[0] is output 0, outputs[1] output 1, and so on; `index` says so afterwards. (Programs of
/// older SDKs zero the array and set want_float alone.) Buffers that this makes (is_prealloc 0) are
/// the program's until rknn_outputs_release(). RKNN_ERR_OUTPUT_INVALID: no run yet, a wrong index,
/// a small buffer.
int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                     rknn_output_extend *extend);

/// Frees the buffers that rknn_outputs_get() made, not those that were preallocated; `outputs` may
/// be used again.
int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]);

// Memory that programs and the NPU share. The functions that make it answer NULL on failure
// (rknnd_last_error() has the words); the struct is freed with rknn_destroy_mem().

/// Memory that somebody else made, by its physical address. `virt_addr`: where it is mapped.
rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr,
                                           uint32_t size);

/// Memory that somebody else made, by its dma-buf or memfd, mapped at `virt_addr`; the data start
/// `offset` bytes behind. `fd` stays the program's.
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr,
                                         uint32_t size, int32_t offset);

/// A Rockchip media block. Not offered here, as in the vendor's runtime: always NULL.
rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset);

/// New cacheable memory of `size` bytes.
rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size);

/// New memory. `alloc_flags`: rknn_mem_alloc_flags; with RKNN_MEM_FLAG_ALLOC_NO_CONTEXT ctx is 0.
rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags);

/// Frees the struct, and the memory if this library made it. Memory that somebody else made is not
/// touched; it may be gone already. Any context will do.
int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem);

/// The same, under the misspelt name that it had in older SDKs.
int rknn_destory_mem(rknn_context ctx, rknn_tensor_mem *mem);

/// Memory for the weights (RKNN_FLAG_MEM_ALLOC_OUTSIDE), of the size that RKNN_QUERY_MEM_SIZE says.
int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem);

/// Memory for intermediate results (RKNN_FLAG_MEM_ALLOC_OUTSIDE, _INTERNAL_ALLOC_OUTSIDE).
/// Contexts that never run at the same time may share it.
int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem);

/// Uses `mem` for the input or output that `attr` describes (a queried attribute; its name tells
/// input and output apart) from now on. A changed type or fmt makes the runtime convert. What is
/// written to the memory up to rknn_run() is seen by the run.
int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr);

/// Chooses a shape set in which one input of a dynamic model has this shape. Deprecated:
/// rknn_set_input_shapes().
int rknn_set_input_shape(rknn_context context, rknn_tensor_attr *attr);

/// Chooses a shape of a dynamic model: index, name, dims, n_dims and fmt (4-D: NHWC, else
/// UNDEFINED) of all inputs, all from the same shape set of
/// RKNN_QUERY_INPUT_DYNAMIC_RANGE. Before the
/// first run, and at each change; then all inputs are to be set again. RKNN_ERR_PARAM_INVALID: not
/// one of the list. A context begins with the largest shapes.
int rknn_set_input_shapes(rknn_context context, uint32_t n_inputs, rknn_tensor_attr attr[]);

/// Makes what the CPU wrote visible to the device, or the other way round. Only needed with
/// RKNN_FLAG_DISABLE_FLUSH_*_MEM_CACHE.
int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode);

#ifdef __cplusplus
}
#endif

#endif
