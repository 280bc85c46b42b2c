// Lines of a convolution's image, one image after the other, in a form of the kernel's own with
// padding on both sides. Only those are held that a window reaches over.
#pragma once

#include "npu/sim/conv/conv.h"

struct conv_lines {
    const struct conv *c;
    size_t size;    // bytes of a line
    size_t element; // of the image's elements, 1 unless the caller sets it
    /// Makes a line with its padding, l->size bytes, of `x`, a line of the image.
    void (*load)(const struct conv_lines *l, const int8_t *x, void *line);

    const int8_t *image;
    uint8_t *ring, *border; // border: a line above or below the image; its owner fills it
    int64_t loaded;         // so many of the image's
};

/// Bytes of a line of elements of `element` bytes, with `more` elements behind it for kernels that
/// read too much. UINT64_MAX: more than can be.
uint64_t conv_lines_size(const struct conv *c, size_t element, size_t more);

/// Scratch memory for lines of `size` bytes each.
int conv_lines_scratch(struct step *s, const struct conv *c, uint64_t size, uint64_t *ret_at,
                       struct error *e);

/// Lines of `size` bytes in that memory. The caller sets `load` and fills the border.
struct conv_lines conv_lines(const struct conv *c, size_t size, void *memory);

/// Lines of bytes as the image has them, with its zero point around, and 3 more that may be read:
/// their size, and lines that need nothing else to be set, with `more` bytes behind each.
uint64_t conv_lines_bytes_size(const struct conv *c);
struct conv_lines conv_lines_of_bytes(const struct conv *c, size_t more, void *memory);
void conv_lines_load_bytes(const struct conv_lines *l, const int8_t *x, void *line);

/// The segments of a window: neighbouring elements of a line, those of its rows, or of each of its
/// taps where they lie apart (dilation, groups). How many, and how many elements each has.
size_t conv_segments(const struct conv *c);
size_t conv_segment_size(const struct conv *c);

/// Goes on to the next image.
void conv_lines_begin(struct conv_lines *l, const int8_t *image);

/// The lines under each row of the window of output line `y`, which never decreases within an
/// image.
void conv_lines_find(struct conv_lines *l, uint32_t y, const void **rows);
