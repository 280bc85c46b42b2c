// What the matmul programs share: a context with its matrices.
#pragma once

#include "../conformance.h"
#include "matmul_plain.h"
#include "rknn_matmul_api.h"

/// The chip of the other side, told from what it offers: "rk3588", "rk3576", "rk3562" or "rk3566".
/// Ends the program where there is no matmul.
const char *matmul_chip(void);

rknn_matmul_info matmul_info(const struct plain_case *p);

/// Checks names, types, shapes and sizes.
void matmul_expect_attrs(const struct plain_case *p, const rknn_matmul_io_attr *io);

/// Sets the parameters of a problem that differ from the defaults.
void matmul_set_quant(rknn_matmul_ctx c, const struct plain_problem *x);

/// Memory of at least `size` bytes that holds `data` (NULL: nothing), set for a matrix.
rknn_tensor_mem *matmul_set_mem(rknn_matmul_ctx c, rknn_matmul_tensor_attr *attr, const void *data,
                                size_t size);

/// Frees the memory of the three matrices.
void matmul_destroy_mems(rknn_matmul_ctx c, rknn_tensor_mem *a, rknn_tensor_mem *b,
                         rknn_tensor_mem *result);
