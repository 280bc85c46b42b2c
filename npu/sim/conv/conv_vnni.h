// Convolutions of integers, one group, with the multiplication of bytes that AVX512-VNNI has.
//
// It multiplies unsigned by signed bytes and adds up four products. The unsigned ones are the
// weights, raised by 128; the signed ones are the image as it is, four bytes of it for 16 channels
// of the output at once. What that makes of the sum is put right by the bias, and by the sum of the
// window, which the zero points of weights need anyway:
//   Σ (w + nz) * (x - zp) = Σ (w + 128) * x  +  (nz - 128) * Σ x  -  zp * Σ (w + nz)
//
// The window is taken as segments of neighbouring bytes, four by four: its rows, or each of its
// taps where they lie apart (dilation).
#pragma once

#include "npu/sim/conv/conv_lines.h"
#include "npu/sim/conv/conv_requantize.h"

#define VNNI_SEGMENTS 64
#define VNNI_VECTORS  4 // of CONV_LANES channels, that are worked on together

// Channels of the output that are worked on together.
struct vnni_block {
    size_t from, n_vectors;
    const uint8_t *weights; // [segment][four bytes][channel][byte], as they are read
};

struct conv_vnni {
    bool direct;                       // lines are read where they are
    bool flat;                         // and all pixels are one line
    size_t n_segments, segment, quads; // segment: its bytes; quads: fours of them
    size_t n_blocks;
    struct vnni_block *blocks;
    int32_t *bias, *nz; // to be added to sums, to be multiplied by the window's sum
    // A channel that the output does not have counts the sum of the window, if there is room for
    // one; -1: there is none. Then lines have behind their bytes what each row of the windows
    // gives.
    int spare;
    size_t row_sums, more; // where, and how many bytes a line has behind those of the image
    size_t chunk;          // pixels whose sums are kept, or that blocks take turns on
    size_t n_whole;        // pixels that are finished at once: all but some of the last ones
};

// Pixels of a line of the output.
struct vnni_pixels {
    const int8_t *segments[VNNI_SEGMENTS]; // of the first one
    size_t n_segments, quads, pitch;       // pitch: bytes from pixel to pixel
    const uint8_t *weights;
    const int32_t *bias, *nz;
    int spare;
    const int32_t *window_sums; // their sums, where there is no spare channel
    size_t first, from;         // pixel and channel of the output
    size_t channels;            // from pixel to pixel
    int32_t *sums;              // CONV_LANES more than wanted are written
    // Not NULL: sums become outputs at once, and fewer than CONV_LANES bytes too much are written
    // behind each pixel.
    const struct requant_job *requant;
};

/// Sums of n pixels and of so many vectors of channels, with all that belongs to them. Where they
/// become outputs, `sums` is to work in.
void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors);

// Segments of neighbouring bytes, which lie `apart`, and again `step` further for each pixel.
struct vnni_bytes {
    const int8_t *x;
    size_t n_segments, segment, apart, pitch;
};

/// Sums of the bytes of n pixels; CONV_LANES in all at least are written.
void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums);
