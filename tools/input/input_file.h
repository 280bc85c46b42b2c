// One input from a file: an array of numpy (.npy), a picture (.png, .jpg, .bmp) or raw elements.
#pragma once

#include "rknn_api.h"
#include "tools/input/input_form.h"

// What an input's file was.
struct input_file {
    const char *format; // "PNG", "npy", "raw", …
    bool is_picture;    // the rest is only filled then
    bool turned, lost_alpha;
    struct image_fitted fitted;
};

/// Reads `path` for the input that `attr` describes; `native` is its native form, used if
/// form->native. The kind of file is found by its first bytes, unless `form` says raw. An array
/// brings its type and must have the input's shape in the form's layout; a picture becomes UINT8,
/// NHWC, in the input's number of channels. "-" is standard input, read once and kept. ret->buf is
/// malloc'ed and the caller's. Failures do not name the file.
int input_file_load(const rknn_tensor_attr *attr, const rknn_tensor_attr *native, const char *path,
                    const struct input_form *form, rknn_input *ret, struct input_file *ret_file,
                    struct error *e);
