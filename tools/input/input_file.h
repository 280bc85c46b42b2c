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

/// Reads `path` for the input that `attr` describes, `native` in its own form (used if form->native
/// says so). What the file is, is seen from its first bytes, unless `form` says that it is raw. An
/// array gives the type and must have the input's shape in the form's layout; a picture becomes
/// UINT8, NHWC, RGB or gray as the input has channels. "-" is standard input, which is read once
/// and kept. ret->buf is malloc'ed and the caller's. The words of a failure do not name the file.
int input_file_load(const rknn_tensor_attr *attr, const rknn_tensor_attr *native, const char *path,
                    const struct input_form *form, rknn_input *ret, struct input_file *ret_file,
                    struct failure *f);
