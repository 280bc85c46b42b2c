// Convolutions of integers with the multiplication of 16-bit words that AVX2 has: for CPUs that do
// not multiply bytes exactly, and for what those that do have no kernel for.
//
// It multiplies words two by two and adds up both products. Those of the image are less its zero
// point, weights have theirs added, so sums need nothing else.
//
// The segments of the window (conv_lines.h) are taken two words by two.
#pragma once

#include "npu/sim/conv/conv_lines.h"

#define INT16_SEGMENTS 512

// Channels of the output that are worked on together, all of one group.
struct int16_block {
    size_t from, count;     // CONV_LANES at most
    size_t image;           // the group's first channel of the image
    const int16_t *weights; // [segment][two words][CONV_LANES][word], as they are read
};

struct conv_int16 {
    size_t n_segments, segment, pairs; // segment: its words; pairs: twos of them
    size_t n_blocks;
    struct int16_block *blocks;
    size_t chunk; // pixels whose sums are kept
};

// Pixels of a line of the output.
struct int16_pixels {
    const int16_t *segments[INT16_SEGMENTS]; // of the first one
    size_t n_segments, pairs, pitch;         // pitch: words from pixel to pixel
    size_t channels;                         // of the output: from pixel to pixel
};

/// The sums of n pixels and of a block's channels; `sums` are those of the first pixel.
void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums);
