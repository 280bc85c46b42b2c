// Datatypes of the protocol: their names, sizes, and elements as JSON has them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rknn_api.h"

#include "base/error.h"

struct datatype {
    const char *name; // "FP32"
    uint8_t size;     // bytes of an element
    bool real;        // a floating point type
    bool is_signed;
    rknn_tensor_type rknn; // RKNN_TENSOR_TYPE_MAX: the library has none
};

/// NULL: there is none of the name, or its elements have no fixed size (BYTES).
const struct datatype *datatype_find(const char *name, size_t n);

/// Of a type of the library's; NULL: the protocol has none (INT4).
const struct datatype *datatype_of(rknn_tensor_type type);

/// The names, for people.
#define DATATYPES "BOOL, UINT8/16/32/64, INT8/16/32/64, FP16, BF16, FP32, FP64"

/// Puts a JSON number into an element (little-endian; need not be aligned). False: the type cannot
/// hold it: a fraction, or out of its range. For real types what is too large is.
bool datatype_put(const struct datatype *t, const char *number, size_t n, void *to);

#define DATATYPE_TEXT_SIZE 32

/// Writes an element as JSON, in the fewest digits that give it back: true and false for BOOL, and
/// NaN, Infinity and -Infinity, which are no JSON but what clients of the protocol know. Returns
/// its length.
size_t datatype_print(const struct datatype *t, const void *element,
                      char ret[static DATATYPE_TEXT_SIZE]);

/// An element as a number, as near as doubles come.
double datatype_value(const struct datatype *t, const void *element);
