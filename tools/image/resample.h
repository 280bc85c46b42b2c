// Pictures in another size.
#pragma once

#include "tools/image/image.h"

// A part of a picture, in its pixels; its sides may be between pixels.
struct resample_window {
    double x, y, width, height;
};

/// Makes width x height pixels from what lies in the window, bilinear with the triangle as wide as
/// an output pixel, so that shrinking averages over everything (as Pillow's BILINEAR and area
/// filters do; OpenCV's INTER_LINEAR leaves pixels out). Rows of `to` lie `stride` bytes apart.
int resample(const struct image *from, const struct resample_window *window, uint8_t *to,
             size_t stride, uint32_t width, uint32_t height, struct failure *f);
