// Tensor descriptions.
#include "tensor/tensor.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[TENSOR_TYPE_COUNT] = {
    [TENSOR_FLOAT32] = {"FP32", 4}, [TENSOR_FLOAT16] = {"FP16", 2},
    [TENSOR_INT8] = {"INT8", 1},    [TENSOR_UINT8] = {"UINT8", 1},
    [TENSOR_INT16] = {"INT16", 2},  [TENSOR_UINT16] = {"UINT16", 2},
    [TENSOR_INT32] = {"INT32", 4},  [TENSOR_UINT32] = {"UINT32", 4},
    [TENSOR_INT64] = {"INT64", 8},  [TENSOR_BOOL] = {"BOOL", 1},
    [TENSOR_INT4] = {"INT4", 0},    [TENSOR_BFLOAT16] = {"BF16", 2},
};

size_t tensor_type_size(enum tensor_type type)
{
    return (unsigned)type < TENSOR_TYPE_COUNT ? types[type].size : 0;
}

const char *tensor_type_name(enum tensor_type type)
{
    return (unsigned)type < TENSOR_TYPE_COUNT ? types[type].name : "UNKNOW";
}

const char *tensor_layout_name(enum tensor_layout layout)
{
    static const char *const names[] = {"NCHW", "NHWC", "NC1HWC2", "UNDEFINED"};
    return (unsigned)layout < TENSOR_LAYOUT_COUNT ? names[layout] : "UNKNOW";
}

const char *tensor_qnt_name(enum tensor_qnt qnt)
{
    static const char *const names[] = {"NONE", "DFP", "AFFINE"};
    return (unsigned)qnt < TENSOR_QNT_COUNT ? names[qnt] : "UNKNOW";
}

bool tensor_bytes(enum tensor_type type, uint64_t n, size_t *ret)
{
    size_t element = tensor_type_size(type), total;
    if (type == TENSOR_INT4) {
        total = (size_t)(n / 2 + n % 2);
    } else if (!element || __builtin_mul_overflow(n, element, &total)) {
        return false;
    }
    *ret = total;
    return true;
}

int tensor_attr_check(const struct tensor_attr *a, const char *what, struct error *e)
{
    if (!memchr(a->name, 0, sizeof a->name))
        return error_set(e, STATUS_PARAM_INVALID, "%s: name is not terminated", what);
    if ((unsigned)a->type >= TENSOR_TYPE_COUNT || (unsigned)a->layout >= TENSOR_LAYOUT_COUNT ||
        (unsigned)a->qnt >= TENSOR_QNT_COUNT)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s: unknown type %d, layout %d or quantization %d", what, (int)a->type,
                         (int)a->layout, (int)a->qnt);
    if (a->n_dims > TENSOR_MAX_DIMS)
        return error_set(e, STATUS_PARAM_INVALID, "%s: %u dimensions, at most %d are allowed", what,
                         a->n_dims, TENSOR_MAX_DIMS);
    uint32_t n = 1;
    for (uint32_t i = 0; i < a->n_dims; i++)
        if (__builtin_mul_overflow(n, a->dims[i], &n))
            return error_set(e, STATUS_PARAM_INVALID, "%s: dimensions overflow", what);
    size_t size;
    if (n != a->n_elems || !tensor_bytes(a->type, n, &size) || size != a->size ||
        a->size_with_stride < a->size)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s: %u elements and %u bytes (%u with stride) do not fit the dimensions",
                         what, a->n_elems, a->size, a->size_with_stride);
    return 0;
}
