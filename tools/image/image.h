// Pictures in PNG, JPEG and BMP files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define IMAGE_MAX_PIXELS (1u << 28)

struct image {
    uint32_t width, height; // pixels
    uint32_t channels;      // 1 gray, 3 RGB, 4 RGB and alpha
    uint8_t *pixels;        // rows of bytes without padding; malloc'ed
    bool turned;            // by the orientation that the file asks for (EXIF)
    bool lost_alpha;        // the file has alpha that `channels` has no room for
};

void image_done(struct image *i);

/// "PNG", "JPEG" or "BMP" by a file's first bytes; NULL: none of them.
const char *image_format(const void *bytes, size_t size);

/// The name of a kind of picture that is known but not read ("GIF"), by its first bytes; NULL: it
/// looks like none.
const char *image_foreign_format(const void *bytes, size_t size);

/// Decodes the picture in `bytes` to `channels` (1, 3 or 4) of 8 bits, upright: turned as its EXIF
/// orientation says. Gray of a colour picture is its luma (BT.601); alpha is dropped, or 255 where
/// the file has none; samples of 16 bits are scaled; CMYK becomes RGB without a profile; colour
/// profiles and gamma are ignored, as by OpenCV and Pillow; of an animation it is the first
/// picture. Refused are damaged pictures, also where most of one could be shown, and more than
/// IMAGE_MAX_PIXELS. Failures are STATUS_INPUT_INVALID and do not name the file.
int image_decode(const void *bytes, size_t size, uint32_t channels, struct image *ret,
                 struct error *e);
