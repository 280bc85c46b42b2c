// What the parts of the conversion (convert_*.c) share.
#pragma once

#include "tensor/convert.h"

#define CONVERT_CHUNK 512 // elements that are converted at a time

// Where the elements of a form are, in elements: channel c is in block c / c2, at c % c2.
struct convert_strides {
    size_t image, block, row, column, channel;
    size_t c2;
    size_t total; // with all padding
};

/// False when the form cannot be, or a size overflows. UNDEFINED is as NCHW.
bool convert_strides_of(const uint32_t dims[4], const struct convert_form *f,
                        struct convert_strides *ret);

/// n elements as real numbers of the type; the stride is in elements, nothing needs to be aligned.
void convert_load(enum tensor_type type, const uint8_t *src, size_t stride, size_t n, double *ret);

/// Stores (x[i] - mean) / std in the type and the quantization of `a`: FLOAT32, FLOAT16, INT8,
/// UINT8 or INT16.
void convert_store(const struct tensor_attr *a, const double *x, double mean, double std,
                   uint8_t *dst, size_t stride, size_t n);

/// To float, with the last bit set if anything was lost: rounding that to fp16 is then rounding
/// once.
float convert_round_to_odd(double x);

/// Types between which values are converted.
bool convert_has_arithmetic(enum tensor_type type);

/// Whether what is stored differs from the real values.
bool convert_is_quantized(const struct tensor_attr *a);
