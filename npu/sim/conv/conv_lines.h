// The lines of a convolution's image as its kernel takes them: in another type, or with padding on
// both sides. Only as many are held as a window is high, in a ring; each is made once per image,
// just before it is needed, so it is still in the cache when the window has it.
//
//   line     | left padding | iw pixels of ic channels | right padding | what kernels may read |
//   memory   border | ring: line 0 | line 1 | … | line n - 1 |     line y is at y % n
//   rows[k]  the line under row k of the window; the border where that is above or below the image
//
// A segment is a run of elements of a line that a kernel may take at once: of a row of the window,
// all its taps and channels where they are contiguous (one group, no horizontal dilation); else
// each tap is a segment.
#pragma once

#include "npu/sim/conv/conv.h"

struct conv_lines {
    const struct conv *c;
    size_t size;    // bytes of a line
    size_t element; // of the image's elements, 1 unless the caller sets it
    /// Makes a line with its padding, l->size bytes, of `x`, a line of the image. NULL: lines of
    /// the image are taken where they are.
    void (*load)(const struct conv_lines *l, const int8_t *x, void *line);

    const int8_t *image;
    uint8_t *ring, *border; // border: a line above or below the image; the caller fills it
    int64_t loaded;         // lines of the image that have been made
};

/// Bytes of a line of elements of `element` bytes, with `more` elements behind it that kernels may
/// read. UINT64_MAX: it overflows.
uint64_t conv_lines_size(const struct conv *c, size_t element, size_t more);

/// Scratch memory for lines of `size` bytes each.
int conv_lines_scratch(struct step *s, const struct conv *c, uint64_t size, uint64_t *ret_at,
                       struct error *e);

/// Lines of `size` bytes in that memory. The caller sets `load` and fills the border.
struct conv_lines conv_lines(const struct conv *c, size_t size, void *memory);

/// Lines of bytes as the image has them, padded with its zero point, and 3 bytes behind them: their
/// size, and such lines, ready to be used, with `more` bytes behind each.
uint64_t conv_lines_bytes_size(const struct conv *c);
struct conv_lines conv_lines_of_bytes(const struct conv *c, size_t more, void *memory);

/// How many segments a window has, and how many elements each of them.
size_t conv_segments(const struct conv *c);
size_t conv_segment_size(const struct conv *c);

/// Goes on to the next image.
void conv_lines_begin(struct conv_lines *l, const int8_t *image);

/// The lines under each row of the window of output line `y`, which never decreases within an
/// image.
void conv_lines_find(struct conv_lines *l, uint32_t y, const void **rows);
