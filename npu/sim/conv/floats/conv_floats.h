// Convolutions of floats, from what is stored to what is stored: fp16 images become floats line by
// line, and sums outputs before they leave registers.
//
//   y[o] = stored(clamp(Σ over taps, Σ over channels i: x[tap][i] * w[o][tap][i]  + bias[o]))
//
// Rounding: each product with its sum once (fma). In one group in oneDNN's order, so both give the
// same bits; several groups are taken where that is slower, in the order of NEON or AVX512:
//
//   AVX512   taps, and of each tap its channels, from 0 on; then the bias
//   AVX2     eight channels after the other, of these the taps, and of each tap its eight channels,
//            from the bias on (of images whose channels are a multiple of eight: others are
//            oneDNN's, which takes fewer in other ways)
//   NEON     taps, and of each tap its channels, from the bias on; oneDNN has no kernel there
//
// Denormals are 0, as there (NEON keeps them).
//
// A window is a list of segments (conv_lines.h), a segment a run of contiguous floats:
//
//   line      | x0 x1 x2 x3 …                  each is broadcast to all lanes
//   weights   [block][segment][float][channel of the block: n_vectors of the level's lanes]
//
// Where there is one output, its vectors are pixels, by weights that are broadcast: flat images of
// fp16 are turned into planes of channels for that.
//
// Weights that are more than a second cache keeps come from memory in every run. Of images of some
// pixels a block's weights are asked for while the block before is computed
// (conv_floats_streamed.c).
//
// Few pixels take as long as their weights take to come from memory: those that a file has as fp16
// stay fp16, half as many bytes, where the level has a function for it
// (docs/decisions/0306).
#pragma once

#include "npu/sim/conv/conv_lines.h"

#define FLOATS_SEGMENTS 64
#define FLOATS_VECTORS  4 // in a block at most
#define FLOATS_FEW      6 // pixels of which the weights decide what they take

// Channels of the output that the kernel computes at a time, all of one group.
struct floats_block {
    size_t from, left; // the first one; how many its group has from there on
    size_t in;         // the group's first channel of the image
    size_t n_vectors;
    bool inside;         // what its vectors have too much lies in channels of the same pixel
    const void *weights; // floats, or fp16: conv_floats.halves
    const float *bias;
};

struct conv_floats {
    bool flat;                  // all pixels are one line, of which a chunk is taken at a time
    bool there;                 // lines are taken where the image has them
    bool halves;                // weights are fp16
    bool streamed;              // block by block, all pixels of each
    bool planes;                // pixels are turned into planes of channels, of which one is made
    size_t n_segments, segment; // floats of a segment
    size_t parts;               // of a tap's channels, each with segments of its own
    size_t n_blocks, chunk;     // chunk: pixels that each block computes before the next one
    struct floats_block *blocks;
    float *bias; // of all channels, and a block more
    struct clamp_bounds bounds;
    enum { FLOATS_TO_FLOAT32, FLOATS_TO_FP16, FLOATS_TO_SUMS } to;
    const struct floats_level *level;
    struct element_form image; // as it is stored
};

// Pixels of a line of the output.
struct floats_pixels {
    const float *segments[FLOATS_SEGMENTS]; // of the first one
    size_t n_segments, segment, pitch;      // pitch: floats from pixel to pixel
    const void *weights;                    // as the block's
    const float *bias;
    struct clamp_bounds bounds;
    size_t channels, left; // of the output, from pixel to pixel; of the block's group, from its
                           // first one on
    const uint8_t *ahead;  // weights of the next block
    size_t ahead_bytes;    // … of which `all` pixels ask for as much each; the first one is `at`
    size_t all, at;
    size_t whole; // pixels behind which there is room for what a vector has too much
    bool fp16;
    void *to; // the block's first channel of the first pixel
};

// A level of instructions.
struct floats_level {
    size_t lanes, vectors; // of a vector; in a block at most
    size_t channels;       // of a tap that are added before the next tap's; 0: all
    bool takes_all;        // oneDNN has nothing faster, whatever the convolution
    bool takes_groups;     // … for several groups that are more than one channel each
    /// Outputs of n pixels and the channels of n_vectors.
    void (*sum)(const struct floats_pixels *p, size_t n, size_t n_vectors);
    /// The same by weights of fp16, of FLOATS_FEW pixels at most; NULL: there is none.
    void (*sum_halves)(const struct floats_pixels *p, size_t n, size_t n_vectors);
    /// As sum(), asking for the weights ahead. Segments that are NULL are left out. NULL: there is
    /// none.
    void (*sum_streamed)(const struct floats_pixels *p, size_t n, size_t n_vectors);
    /// The only channel of n pixels, of planes of fp16, `pitch` apart; NULL: there is none.
    void (*sum_planes)(const struct floats_pixels *p, const uint16_t *planes, size_t pitch,
                       size_t n);
};

/// Whether a convolution is streamed; how many vectors a block has then; its scratch memory; all
/// outputs. conv_floats.c calls these.
bool floats_streams(const struct conv *c);
size_t floats_streamed_vectors(const struct conv *c);
int floats_streamed_scratch(struct step *s, struct conv *c, struct error *e);
void floats_streamed_run(const struct step *s, const struct conv *c, struct run *r,
                         struct floats_pixels *p, const int8_t *image);

/// The level there is; NULL: none.
const struct floats_level *floats_level(void);

/// Pixels from `first` on that whole vectors can be written to: all but the last ones.
size_t floats_whole_pixels(const struct conv *c, size_t first);

extern const struct floats_level conv_floats_avx512, conv_floats_avx2, conv_floats_neon;

// The outputs of a tile, from pixel `first` on.
typedef void floats_sum(const struct floats_pixels *p, size_t first);

// n pixels in tiles of up to `most`, of which functions[i] does i + 1: as few as there can be, and
// all about as large.
static inline void floats_sum_all(floats_sum *const *functions, size_t most,
                                  const struct floats_pixels *p, size_t n)
{
    const size_t tiles = (n + most - 1) / most, each = n / tiles, larger = n % tiles;
    for (size_t i = 0, first = 0, count; i < tiles; i++, first += count) {
        count = each + (i < larger);
        functions[count - 1](p, first);
    }
}
