// One input from a file: an array of numpy (.npy) or a picture (.png, .jpg).
#pragma once

#include "rknn_api.h"
#include "tools/failure.h"

/// Reads `path` for the input that `attr` describes; what it is, is seen from its first bytes. An
/// array gives the type and must have the input's shape in `layout`; a picture becomes UINT8, NHWC,
/// RGB or gray as the input has channels. ret->buf is malloc'ed and the caller's. The words of a
/// failure do not name the file.
int input_file_load(const rknn_tensor_attr *attr, const char *path, rknn_tensor_format layout,
                    rknn_input *ret, struct failure *f);
