// What the parts of the conversion share.
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

/// To float with the last bit set if anything was lost: a second rounding, to half, is then exact.
float convert_round_to_odd(double x);

/// Types between which values are converted.
bool convert_has_arithmetic(enum tensor_type type);

/// Whether what is stored differs from the real values.
bool convert_is_quantized(const struct tensor_attr *a);
