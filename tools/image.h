// Pictures in PNG and JPEG files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/failure.h"

struct image_size {
    uint32_t width, height; // pixels
    uint32_t channels;      // 1 gray, 3 RGB, 4 RGB and alpha
};

#define IMAGE_MAGIC_SIZE 8

/// What a file is by its first IMAGE_MAGIC_SIZE bytes (fewer: it is neither).
bool image_is_png(const uint8_t *magic, size_t n);
bool image_is_jpeg(const uint8_t *magic, size_t n);

/// Reads a picture of exactly this width and height, as rows of bytes without padding, into
/// `pixels` (width * height * channels bytes). Gray of a colour picture is its luma (BT.601); alpha
/// is dropped, or 255 where the file has none; samples of 16 bits are scaled; colour profiles and
/// gamma are ignored, as by OpenCV and Pillow. Another size is refused with both sizes. Failures
/// are EXIT_INPUT and do not name the file.
int image_read(const char *path, const struct image_size *size, uint8_t *pixels, struct failure *f);
