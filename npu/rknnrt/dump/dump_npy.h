// Reads the .npy files that the runtime dumps layers to.
#pragma once

#include "base/bytes.h"
#include "tensor/tensor.h"

/// A file of numbers of the machine's byte order, in C order. *ret_attr: dims, sizes and type, as a
/// packed tensor of no layout; without a name. *ret_data points into `file`. STATUS_FAIL says what
/// is not known.
int dump_npy_parse(struct bytes file, struct tensor_attr *ret_attr, struct bytes *ret_data,
                   struct error *e);
