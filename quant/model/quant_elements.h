// What a tensor of a file says of its elements.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "quant_onnx.pb-c.h"

// Data types (onnx.proto, TensorProto.DataType).
enum quant_type {
    QUANT_NO_TYPE = 0,
    QUANT_FLOAT = 1,
    QUANT_UINT8 = 2,
    QUANT_INT8 = 3,
    QUANT_INT16 = 5,
    QUANT_INT32 = 6,
    QUANT_INT64 = 7,
    QUANT_BOOL = 9,
    QUANT_FLOAT16 = 10,
};

#define QUANT_EXTERNAL 1 // data_location of a tensor whose elements lie in another file

#define QUANT_MAX_DIMS 16

/// Elements that the dims say; 0: none, or more than there can be.
size_t quant_constant_count(const Quant__Tensor *t);

/// Bytes of an element of a type; 1 of those that are not known here.
size_t quant_constant_element(int32_t type);

static inline const char *quant_text(const char *s)
{
    return s ? s : "";
}
