// Matrices of rknn_matmul_api.h in memory: reading their elements, and writing those of C.
#pragma once

#include "tensor/matmul_types.h"

/// Reads rows [row, row + n) of what is stored, one after the other, as floats, or as 8-bit
/// integers (of matrices of INT8 and INT4).
void product_read_floats(const struct matmul_matrix *x, const void *data, uint32_t row, uint32_t n,
                         float *dst);
void product_read_int8(const struct matmul_matrix *x, const void *data, uint32_t row, uint32_t n,
                       int8_t *dst);

/// Writes a row: real numbers as they are; integers as value + zp, rounded with halves to even and
/// saturated.
void product_write(const struct matmul_matrix *x, void *data, uint32_t row, const double *values,
                   int32_t zp);
