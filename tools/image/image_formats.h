// Private to the picture readers: what image.c gives them and takes from them.
#pragma once

#include <stdint.h>
#include <stdio.h>

struct error;
struct image;

// Each fills `ret`, with ret->channels set by the caller, and allocates its pixels last of all that
// can fail without data: image_done() after a failure too. *ret_orientation is 1 to 8 as EXIF
// counts; 1 is upright.
typedef int image_reader(FILE *file, struct image *ret, unsigned *ret_orientation, struct error *e);

image_reader image_read_png, image_read_jpeg;

/// A BMP in memory.
int image_read_bmp(const uint8_t *bytes, size_t size, struct image *ret, struct error *e);

/// Sets the size and allocates the pixels.
int image_alloc(struct image *ret, uint64_t width, uint64_t height, struct error *e);

/// BT.601, rounded.
static inline uint8_t image_luma(unsigned red, unsigned green, unsigned blue)
{
    return (uint8_t)((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

/// The orientation in EXIF data (a TIFF file without a picture); 1 when there is none, or when the
/// data makes no sense.
unsigned image_exif_orientation(const uint8_t *data, size_t size);

/// Turns and mirrors the picture upright.
int image_turn(struct image *i, unsigned orientation, struct error *e);
