// What the runtime dumps, as tensors: each file is a .npy array, whose shape must fit 32-bit
// attributes.
#include "npu/rknnrt/dump/dump_npy.h"

#include "tensor/npy.h"

// A scalar, of shape (), becomes a list of one element; empty arrays are refused.
static int set_shape(const struct npy *array, struct tensor_attr *a, struct error *e)
{
    uint64_t n = 1;
    for (size_t i = 0; i < array->n_dims; i++)
        if (i == TENSOR_MAX_DIMS || array->shape[i] > UINT32_MAX ||
            __builtin_mul_overflow(n, array->shape[i], &n) || n > UINT32_MAX)
            return error_set(e, STATUS_FAIL, "its shape is not that of a tensor");
        else
            a->dims[i] = (uint32_t)array->shape[i];
    a->n_dims = (uint32_t)array->n_dims;
    if (a->n_dims == 0)
        a->dims[a->n_dims++] = 1;
    a->n_elems = (uint32_t)n;
    if (n == 0 || array->data.size > UINT32_MAX)
        return error_set(e, STATUS_FAIL, "its shape is not that of a tensor");
    a->size = a->size_with_stride = (uint32_t)array->data.size;
    return 0;
}

int dump_npy_parse(struct bytes file, struct tensor_attr *ret_attr, struct bytes *ret_data,
                   struct error *e)
{
    struct tensor_attr a = {.scale = 1, .layout = TENSOR_UNDEFINED};
    struct npy array;
    int r = npy_parse(file, &array, e);
    if (r == 0)
        r = set_shape(&array, &a, e);
    if (r < 0)
        return error_prefix(e, "not a .npy file of a known kind");
    a.type = array.type;
    *ret_attr = a;
    *ret_data = array.data;
    return 0;
}
