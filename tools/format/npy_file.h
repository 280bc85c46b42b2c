// .npy files that are written, with the types of the RKNN API (tensor/npy.h knows the format).
#pragma once

#include "base/error.h"
#include "rknn_api.h"
#include "tensor/npy.h"

/// Writes n elements' worth of `data` under a temporary name in the same folder, and renames it:
/// `path` is whole or not there. STATUS_FAIL for what numpy has no type for, and for all that can
/// happen to files.
int npy_file_write(const char *path, rknn_tensor_type type, const uint32_t *dims, uint32_t n_dims,
                   const void *data, struct error *e);

/// Bytes of one element of a type that numpy has; else 0 (INT4 and BF16).
static inline size_t npy_file_type_size(rknn_tensor_type type)
{
    return npy_type_size((enum tensor_type)type); // the numbers are the same
}
