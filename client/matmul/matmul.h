// Products of matrices: contexts of rknn_matmul_create().
#pragma once

#include "client/matmul/matmul_state.h"
#include "rknn_matmul_api.h"

/// Enters a context that must be of a product; STATUS_CTX_INVALID for any other.
int matmul_enter(rknn_matmul_ctx number, struct context **ret, struct error *e);

/// The matrix of this name: 0, 1, 2 for "A", "B", "C".
int matmul_find(const char name[RKNN_MAX_NAME_LEN], uint32_t *ret, struct error *e);
