// Pictures in another size.
#pragma once

#include "tools/image/image.h"

// A part of a picture, in its pixels; its sides may be between pixels.
struct resample_window {
    double x, y, width, height;
};

/// Makes width x height pixels of what is in the window. Bilinear; shrinking, the triangle is as
/// wide as an output pixel, so that all input pixels are averaged (as with Pillow's BILINEAR and
/// area filters; OpenCV's INTER_LINEAR skips pixels). Rows of `to` are `stride` bytes apart.
int resample(const struct image *from, const struct resample_window *window, uint8_t *to,
             size_t stride, uint32_t width, uint32_t height, struct error *e);
