// Integer convolutions by AVX2's multiplication of int16 (vpmaddwd), or NEON's (smlal): for CPUs
// that do not multiply bytes exactly, and for what those that do have no kernel for (groups).
//
//   sum[o] = Σ over pairs (a, b) of neighbouring inputs: x[a] * w[o][a] + x[b] * w[o][b]
//
// x is the image less its zero point, w the weight plus its own, both int16: so padding is 0, and
// sums need nothing but the bias. They are exact, and wrap at 32 bits as the chips' do.
//
// Layout. A window is a list of segments (conv_lines.h), a segment a run of inputs that are
// contiguous in a line, taken pair by pair; an odd last one is paired with a weight of 0:
//
//   line    | x0 x1 | x2 x3 | x4 … |       a pair is broadcast to 8 lanes, twice (CONV_LANES = 16)
//   weights   [block][segment][pair][o of the block: 16][a, b]      64 bytes for each pair
//
// Of 8 channels or fewer that are left a block has one vector: half of the work of two.
//
//   pair p, block of channels o0 … o15:  w00a w00b w01a w01b … w15a w15b
//
// NEON multiplies by one element of a vector, so there nothing is paired (INT16_JOINED).
#pragma once

#include "npu/sim/conv/conv_lines.h"

#define INT16_SEGMENTS 512

#ifdef __aarch64__
#define INT16_JOINED 1
#else
#define INT16_JOINED 2 // inputs whose weights lie together
#endif

#define INT16_LANES 8 // channels of a vector of weights, of one input

// Channels of the output that the kernel computes at a time, all of one group.
struct int16_block {
    size_t from, count;     // CONV_LANES at most
    size_t lanes;           // CONV_LANES, or INT16_LANES where these hold them
    size_t image;           // the group's first channel of the image
    const int16_t *weights; // [segment][pair][lanes][INT16_JOINED], as they are read
};

struct conv_int16 {
    size_t n_segments, segment, joined; // of a segment: its elements; and by INT16_JOINED
    size_t n_blocks;
    struct int16_block *blocks;
    size_t chunk; // pixels whose sums are in the scratch memory at a time
};

// Pixels of a line of the output.
struct int16_pixels {
    const int16_t *segments[INT16_SEGMENTS]; // of the first one
    size_t n_segments, joined, pitch;        // pitch: elements of the image from pixel to pixel
    size_t channels;                         // of the output: from pixel to pixel
    // Whole vectors are written: what is too much is the next pixel's first channels, which are
    // computed later. Else no more than the block's channels.
    bool overwrites;
};

/// The sums of n pixels and of a block's channels; `sums` are those of the first pixel.
void conv_int16_sum(const struct int16_pixels *p, const struct int16_block *b, size_t n,
                    int32_t *sums);
