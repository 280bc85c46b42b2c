// Matrix multiplication on the NPU: C = A * B, A is M x K, B is K x N. Binary-compatible with
// runtime 2.3.2 of the vendor; the SDK guide's chapter on matmul has types and alignment by chip.
#ifndef _RKNN_MATMUL_API_H
#define _RKNN_MATMUL_API_H

#include "rknn_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef rknn_context rknn_matmul_ctx;

typedef enum _rknn_matmul_quant_type {
    RKNN_QUANT_TYPE_PER_LAYER_SYM = 0,
    RKNN_QUANT_TYPE_PER_LAYER_ASYM = 1,
    RKNN_QUANT_TYPE_PER_CHANNEL_SYM = 2,
    RKNN_QUANT_TYPE_PER_CHANNEL_ASYM = 3,
    RKNN_QUANT_TYPE_PER_GROUP_SYM = 4,
    RKNN_QUANT_TYPE_PER_GROUP_ASYM = 5
} rknn_matmul_quant_type;

// Scales and zero points of the matrix that `name` says. The arrays are the program's; they have 1
// element (per layer), N (per channel) or N * K / group_size (per group), all groups of a column
// one after the other.
typedef struct _rknn_quant_params {
    char name[RKNN_MAX_NAME_LEN];
    float *scale;
    int32_t scale_len;
    int32_t *zp; // may be NULL where all are 0
    int32_t zp_len;
} rknn_quant_params;

// TYPE_OF_A _MM_ TYPE_OF_B _TO_ TYPE_OF_C
typedef enum _rknn_matmul_type {
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32 = 1,
    RKNN_INT8_MM_INT8_TO_INT32 = 2,
    RKNN_INT8_MM_INT8_TO_INT8 = 3,
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16 = 4,
    RKNN_FLOAT16_MM_INT8_TO_FLOAT32 = 5,
    RKNN_FLOAT16_MM_INT8_TO_FLOAT16 = 6,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT32 = 7,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT16 = 8,
    RKNN_INT8_MM_INT8_TO_FLOAT32 = 9,
    RKNN_INT4_MM_INT4_TO_INT16 = 10,
    RKNN_INT8_MM_INT4_TO_INT32 = 11,
    RKNN_FLOAT16_MM_INT4_TO_BFLOAT16 = 12,
    RKNN_INT8_MM_INT4_TO_FLOAT16 = 15
} rknn_matmul_type;

static inline const char *get_matmul_type_string(rknn_matmul_type type)
{
    switch (type) {
    case RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32:
        return "RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32";
    case RKNN_INT8_MM_INT8_TO_INT32:
        return "RKNN_INT8_MM_INT8_TO_INT32";
    case RKNN_INT8_MM_INT8_TO_INT8:
        return "RKNN_INT8_MM_INT8_TO_INT8";
    case RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16:
        return "RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16";
    case RKNN_FLOAT16_MM_INT8_TO_FLOAT32:
        return "RKNN_FLOAT16_MM_INT8_TO_FLOAT32";
    case RKNN_FLOAT16_MM_INT8_TO_FLOAT16:
        return "RKNN_FLOAT16_MM_INT8_TO_FLOAT16";
    case RKNN_FLOAT16_MM_INT4_TO_FLOAT32:
        return "RKNN_FLOAT16_MM_INT4_TO_FLOAT32";
    case RKNN_FLOAT16_MM_INT4_TO_FLOAT16:
        return "RKNN_FLOAT16_MM_INT4_TO_FLOAT16";
    case RKNN_INT8_MM_INT8_TO_FLOAT32:
        return "RKNN_INT8_MM_INT8_TO_FLOAT32";
    case RKNN_INT4_MM_INT4_TO_INT16:
        return "RKNN_INT4_MM_INT4_TO_INT16";
    case RKNN_INT8_MM_INT4_TO_INT32:
        return "RKNN_INT8_MM_INT4_TO_INT32";
    case RKNN_FLOAT16_MM_INT4_TO_BFLOAT16:
        return "RKNN_FLOAT16_MM_INT4_TO_BFLOAT16";
    case RKNN_INT8_MM_INT4_TO_FLOAT16:
        return "RKNN_INT8_MM_INT4_TO_FLOAT16";
    default:
        return "UNKNOW";
    }
}

typedef enum _rknn_matmul_layout {
    RKNN_MM_LAYOUT_NORM = 0,   // rows of the matrix
    RKNN_MM_LAYOUT_NATIVE = 1, // blocks as the NPU reads them
    RKNN_MM_LAYOUT_TP_NORM = 2 // rows of the transposed matrix (B only)
} rknn_matmul_layout;

typedef struct _rknn_matmul_tensor_attr {
    char name[RKNN_MAX_NAME_LEN]; // "A", "B", "C"
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS];
    uint32_t size; // bytes
    rknn_tensor_type type;
} rknn_matmul_tensor_attr;

typedef struct _rknn_matmul_io_attr {
    rknn_matmul_tensor_attr A;
    rknn_matmul_tensor_attr B;
    rknn_matmul_tensor_attr C;
} rknn_matmul_io_attr;

typedef struct _rknn_matmul_shape {
    int32_t M;
    int32_t K;
    int32_t N;
} rknn_matmul_shape;

typedef struct rknn_matmul_info_t {
    int32_t M;
    int32_t K;
    int32_t N;
    rknn_matmul_type type;
    int16_t B_layout;      // rknn_matmul_layout
    int16_t B_quant_type;  // rknn_matmul_quant_type
    int16_t AC_layout;     // rknn_matmul_layout
    int16_t AC_quant_type; // rknn_matmul_quant_type
    int32_t iommu_domain_id;
    int16_t group_size; // of per-group quantization
    int8_t reserved[34];
} rknn_matmul_info;

/// Opens a matmul context, which is an rknn_context: memory for it comes from rknn_create_mem().
/// Fills io_attr: names "A", "B", "C", shapes in the chosen layouts, sizes, types.
/// RKNN_ERR_PARAM_INVALID: the chip has no such multiplication (type, alignment of K and N).
int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr);

/// The same for several shapes; M, K and N of info do not matter. `shapes` and `io_attrs` have
/// shape_num elements each. Memory is to be made for the largest.
int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num,
                                     rknn_matmul_shape dynamic_shapes[],
                                     rknn_matmul_io_attr io_attrs[]);

/// Uses `mem` for the matrix that `attr` names, after its data were written: this rearranges them
/// where the layout asks for it. To be called again when A or B has changed. The memory may be
/// larger than attr->size. `attr` is one of those that the context gave, for any of its shapes:
/// RKNN_ERR_PARAM_INVALID for another type or other dimensions, as matrices are not converted.
int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem *mem,
                           rknn_matmul_tensor_attr *attr);

/// Cores for the context's runs; an error on chips with one core.
int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask);

/// Sets scales and zero points of one matrix; copied. Until then: scale 1, zero point 0.
int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *params);

/// The normalised scale of B (INT8 to INT32, per channel); times A's scale it is C's.
int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params, float *scale);

/// Chooses one of the shapes that the context was made with; rknn_matmul_set_io_mem() with the
/// attributes of that shape follows. B stays set.
int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape *shape);

/// Multiplies, and waits for the end.
int rknn_matmul_run(rknn_matmul_ctx ctx);

int rknn_matmul_destroy(rknn_matmul_ctx ctx);

/// Rearranges B (K rows of N) into the blocks of RKNN_MM_LAYOUT_NATIVE, for B that stays the same.
/// Both buffers are the program's, of the size that rknn_matmul_create() says for B in its layout.
int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N,
                                          rknn_matmul_info *info);

#ifdef __cplusplus
}
#endif

#endif
