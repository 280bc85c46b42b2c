#include "quant/model/quant_elements.h"

size_t quant_constant_count(const Quant__Tensor *t)
{
    size_t n = 1;
    if (t->n_dims > QUANT_MAX_DIMS)
        return 0;
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(n, (size_t)t->dims[i], &n) ||
            n > SIZE_MAX / 16)
            return 0;
    return n;
}

size_t quant_constant_element(int32_t type)
{
    switch (type) {
    case QUANT_FLOAT:
    case QUANT_INT32:
        return 4;
    case QUANT_INT64:
    case 11: // double
    case 13: // uint64
        return 8;
    case QUANT_INT16:
    case 4:  // uint16
    case 10: // float16
    case 16: // bfloat16
        return 2;
    default:
        return type == 12 ? 4 : 1; // uint32
    }
}
