// Conversion of whole tensors between the forms in which programs, models and devices hold them.
#pragma once

#include "tensor/tensor.h"

// One side of a conversion. Only what is needed is looked at; strides as in tensor_attr.
struct convert_form {
    enum tensor_type type;
    enum tensor_layout layout; // TENSOR_UNDEFINED: elements in order, just as the other side's
    uint32_t w_stride;         // columns from row to row; 0: width
    uint32_t c2;               // NC1HWC2 only
    uint32_t h_stride;         // rows from plane to plane; 0: height
};

/// Whether a double may become a float: a fraction may be rounded, NaN and infinity stay, but a
/// whole number must be exact (it is often a size, a mask or an index) and nothing may overflow.
bool convert_fits_float(double v);

/// fp16 to float, exactly, and back: to nearest, ties to even.
float convert_fp16_to_float(uint16_t h);
uint16_t convert_float_to_fp16(float f);

/// Turns an input as a program gives it into the form the model stores.
///
/// `io`     the input's description (logical dims NHWC when 4-D, type, scale, zp, preprocess);
///          its attributes have passed tensor_attr_check()
/// `from`   the form of `src`: NHWC or NCHW for 4-D, strides included; UNDEFINED else (NHWC and
///          NCHW mean the same)
/// `src`    exactly as many bytes as convert_form_bytes() says; need not be aligned
/// `dst`    io->logical.size bytes, packed, in io->logical's layout and type; may not overlap
///
/// Does, in this order: channel order, mean and std, quantization (or rounding to fp16).
/// Quantization is real / scale + zp, rounded with ties to the even stored value (as the NPU does:
/// docs/rknn-format.md), then saturated to the type; NaN becomes zp. It is exact: no intermediate
/// rounding moves a value over a tie. The types
/// FLOAT32, FLOAT16, INT8, UINT8, INT16, INT32, INT64 and BOOL are known; a pair that the SDK does
/// not convert (section 5.2.3, table 5-3; 10.3) is STATUS_INPUT_INVALID. An INT8 source for a
/// quantized INT8 input is real data (-128..127), not stored values: that is pass_through.
int convert_input(const struct tensor_io *io, const struct convert_form *from, const void *src,
                  size_t src_size, void *dst, size_t dst_size, struct error *e);

/// Whether convert_input() takes elements of `from` for an input of `a`'s type; else
/// STATUS_INPUT_INVALID, in the words that it would have.
int convert_input_types(const struct tensor_attr *a, enum tensor_type from, struct error *e);

/// Turns stored values (packed, `attr`'s type, scale and zp) into float32, element by element.
/// `dst` takes attr->n_elems floats. Every type of the list above is known.
int convert_to_float(const struct tensor_attr *attr, const void *src, size_t src_size, float *dst,
                     size_t n, struct error *e);

/// Turns an output's stored values into the form in which a program wants them, in one pass.
///
/// `attr`   type, scale and zp of what is stored (passed tensor_attr_check())
/// `dims`   N, C, H, W of the tensor; {1, 1, 1, n_elems} when it is not 4-D
/// `from`   the form of `src`; of attr->type
/// `to`     the form wanted: attr->type, or FLOAT32 or FLOAT16 for the real values (as
///          convert_to_float(), then rounded to fp16 once)
/// The channels that fill a block of NC1HWC2 become 0; other padding of `dst` is undefined.
int convert_output(const struct tensor_attr *attr, const uint32_t dims[4],
                   const struct convert_form *from, const void *src, size_t src_size,
                   const struct convert_form *to, void *dst, size_t dst_size, struct error *e);

/// N, C, H, W of a tensor that has them (logical dims, NHWC or NCHW); {1, 1, 1, n_elems} for one
/// that is not 4-D.
void convert_dims(const struct tensor_attr *logical, uint32_t ret[4]);

/// Bytes that a tensor takes in a form, up to its last element (rows and planes end with their
/// stride). STATUS_PARAM_INVALID when a stride is too small or the form cannot be.
int convert_form_bytes(const uint32_t dims[4], const struct convert_form *form, size_t *ret,
                       struct error *e);

/// Moves 4-D elements between layouts (NCHW, NHWC, NC1HWC2) and strides without changing values.
/// `dims` are N, C, H, W. Padding of the destination (C2 tail, stride) is set to `fill` (an element
/// of the type, low bytes of the number). Source and destination have the same type.
int convert_layout(const uint32_t dims[4], const struct convert_form *from, const void *src,
                   size_t src_size, const struct convert_form *to, void *dst, size_t dst_size,
                   int64_t fill, struct error *e);
