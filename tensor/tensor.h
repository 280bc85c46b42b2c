// What both ends of a connection know about a model's input or output.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TENSOR_MAX_DIMS 16
#define TENSOR_NAME_LEN 256

// Numbers are those of rknn_tensor_type, rknn_tensor_format and rknn_tensor_qnt_type.
enum tensor_type {
    TENSOR_FLOAT32,
    TENSOR_FLOAT16,
    TENSOR_INT8,
    TENSOR_UINT8,
    TENSOR_INT16,
    TENSOR_UINT16,
    TENSOR_INT32,
    TENSOR_UINT32,
    TENSOR_INT64,
    TENSOR_BOOL,
    TENSOR_INT4,
    TENSOR_BFLOAT16,
    TENSOR_TYPE_COUNT
};

enum tensor_layout {
    TENSOR_NCHW,
    TENSOR_NHWC,
    TENSOR_NC1HWC2, // dims are {N, C1, H, W, C2}
    TENSOR_UNDEFINED,
    TENSOR_LAYOUT_COUNT
};

enum tensor_qnt { TENSOR_QNT_NONE, TENSOR_QNT_DFP, TENSOR_QNT_AFFINE, TENSOR_QNT_COUNT };

// One view of a tensor. The fields mean what rknn_tensor_attr's do (SDK guide 4.1.2):
// real value = (stored - zp) * scale for TENSOR_QNT_AFFINE.
struct tensor_attr {
    uint32_t n_dims;
    uint32_t dims[TENSOR_MAX_DIMS];
    uint32_t n_elems;          // product of dims (for NC1HWC2: with the padding of C)
    uint32_t size;             // bytes without stride
    uint32_t size_with_stride; // bytes with w_stride
    uint32_t w_stride;         // elements; 0: same as the width
    uint32_t h_stride;         // rows; 0: same as the height
    int32_t zp;
    float scale;
    enum tensor_type type;
    enum tensor_layout layout;
    enum tensor_qnt qnt;
    char name[TENSOR_NAME_LEN];
};

// What is done to an input that is not passed through: x -> (x[order[c]] - mean[c]) / std[c].
struct tensor_preprocess {
    uint32_t n_channels; // 0: nothing is done; 1: the same to all; else at most 4
    float mean[4];
    float std[4];
    uint8_t order[4];
};

// An input or an output in the views that programs can ask for.
struct tensor_io {
    struct tensor_attr logical;          // inputs NHWC, outputs NCHW; UNDEFINED when not 4-D
    struct tensor_attr native;           // what the device reads or writes (RKNN_QUERY_NATIVE_*)
    struct tensor_attr native_nhwc;      // RKNN_QUERY_NATIVE_NHWC_*
    struct tensor_preprocess preprocess; // inputs only
    bool shrinks; // a run has the first bytes, as many as it likes; an input is passed through
    bool device_converts; // only the device knows how: programs' data go to it as they are
};

/// Bytes of one element; 0 for TENSOR_INT4 (two in a byte) and for anything unknown.
size_t tensor_type_size(enum tensor_type type);

/// "FP32", "INT8", …: the spellings of get_type_string(); "UNKNOW" for anything else.
const char *tensor_type_name(enum tensor_type type);
const char *tensor_layout_name(enum tensor_layout layout);
const char *tensor_qnt_name(enum tensor_qnt qnt);

/// Bytes that `n` elements of a type take; false when that overflows or the type is unknown.
bool tensor_bytes(enum tensor_type type, uint64_t n, size_t *ret);

/// Checks an attr that came from outside (a peer or a model file): dims, counts and sizes agree,
/// nothing overflows, enums are known, name is terminated. `what` starts the words.
int tensor_attr_check(const struct tensor_attr *a, const char *what, struct error *e);
