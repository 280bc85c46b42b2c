// Integer convolutions by the byte multiplication of AVX512-VNNI (vpdpbusd): four products of an
// uint8 and an int8, added to an int32, in each of 16 lanes. With ARM's dot products
// (neon/conv_neon_sum.c) likewise, but both are int8, so that nothing is raised (VNNI_RAISE).
// With AVX2 alone the end of this file takes vpdpbusd's place, and vectors have 8 channels.
//
// The uint8 are the image, raised by 128 while its lines are copied: four neighbouring bytes,
// broadcast to all lanes. The int8 are the weights of 16 output channels. With X = x + 128:
//   Σ (w + nz) * (x - zp) = Σ w * X   +  nz * Σ X         -  (zp + 128) * Σ (w + nz)
//                           vpdpbusd     v->nz * window sum   v->bias
// All sums are exact, and wrap at 32 bits. Where weights have no zero points, as is usual, no
// window sum is needed.
//
// Layout. A window is a list of segments (conv_lines.h), a segment a run of contiguous bytes, taken
// in quads; weights behind the end of one are 0:
//
//   line      | x0 x1 x2 x3 | x4 x5 x6 x7 | …             a quad is broadcast to 16 lanes
//   weights   [block][segment][quad][channel of the block: 16 * n_vectors][byte of the quad]
//
//   quad q:   w[o0][4q … 4q+3] w[o1][4q … 4q+3] … w[o15][4q … 4q+3]     one vector, 64 bytes
//
// The window sum Σ X comes for free where all channels are one block whose last vector has a lane
// to spare: a channel whose weights are all 1 counts it (`spare`). Else lines have the sums of each
// window row behind their bytes. NEON's last block, which is the first one to be computed, leaves
// what it counts to the others. Its vectors have 8 channels, so that few are computed for nothing.
//
// Groups, with AVX512 alone: a segment is a tap, of which a block takes the inputs of its own
// channels' groups. Where a vector has channels of several groups, these are taken for one, with
// weights of 0 for inputs of the others:
//
//   groups of 4 -> 4 channels     quad 0    w0 w1 w2 w3  0  0  0  0  0  0  0  0  0  0  0  0
//                                 quad 1     0  0  0  0 w4 w5 w6 w7  0  0  0  0  0  0  0  0   …
//
// Window sums of each group are in memory where all channels of each block are of one. Else zero
// points are in the weights: w + nz, as far as it is an int8, and where segments come for the
// second time (`twice`) what is left of it.
#pragma once

#include "npu/sim/conv/conv_lines.h"
#include "npu/sim/conv/conv_requantize.h"

#ifdef __aarch64__
#define VNNI_RAISE   0
#define VNNI_LANES   8
#define VNNI_VECTORS 2
#else
#define VNNI_RAISE   128        // of the image
#define VNNI_LANES   CONV_LANES // channels of a vector
#define VNNI_VECTORS 4          // in a block at most
#endif
#define VNNI_LEAVES (VNNI_RAISE == 0) // the last block leaves what it counts to the others

#define VNNI_SEGMENTS 64

// AVX2: the order in which a block's quads are multiplied, of each segment the pairs first.
struct split_order {
    uint32_t *pairs;  // [segment]: how many there are
    uint32_t *at;     // [segment][quad]: where it is in the segment, in bytes
    uint32_t *places; // [segment][quad of the image]: its number in that order
};

// Channels of the output that the kernel computes at a time.
struct vnni_block {
    size_t from, n_vectors;
    size_t group;             // of the first channel
    size_t input, quads;      // of a segment: its first byte in a tap; what it takes from there
    const uint8_t *weights;   // [segment][quad][channel][4], as they are read
    struct split_order order; // … which is this where there are pairs (conv_vnni.paired)
};

struct conv_vnni {
    bool split;                        // AVX2
    bool paired;                       // … quads are multiplied in pairs
    uint8_t limit;                     // … of bytes: 255: they need not be split
    size_t high;                       // … bytes from a line to its high parts; 0: there are none
    size_t lanes, max_vectors;         // channels of a vector, and vectors of a block at most
    bool flat;                         // all pixels are one line
    size_t n_segments, segment, quads; // of a segment: its bytes, and quads of them; one group's
    bool twice;                        // groups: n_segments counts all segments twice
    size_t n_blocks;
    struct vnni_block *blocks;
    int32_t *bias, *nz;            // added to sums; multiplied by the window sum
    bool has_nz;                   // any of these is not 0
    bool window_sums;              // … and no lane counts the window sum
    size_t n_windows, next_window; // sums of as many groups; from one's to the next one's
    // The lane of the last vector that counts the window sum; -1: no lane is free. Then lines have
    // the sums of the windows' rows behind their bytes.
    int spare;
    size_t row_sums, more; // where these begin, and bytes behind those of the image
    size_t chunk;   // pixels whose sums are kept, or that each block computes before the next one
    size_t n_whole; // pixels that are requantized in registers: all but some of the last ones
};

// Pixels of a line of the output.
struct vnni_pixels {
    const uint8_t *segments[VNNI_SEGMENTS]; // of the first one
    size_t n_segments, quads, pitch;        // pitch: bytes from pixel to pixel
    size_t high;                            // as in struct conv_vnni
    const uint8_t *weights;
    const struct split_order *order; // NULL: there are no pairs
    const int32_t *bias, *nz;        // nz: NULL: all 0
    int spare;
    int32_t *window_sums; // where there is no spare channel
    size_t first, from;   // pixel and channel of the output
    size_t channels;      // from pixel to pixel
    int32_t *sums;        // CONV_LANES more than wanted are written
    // Not NULL: sums are requantized in registers, and up to CONV_LANES - 1 bytes too much are
    // written behind each pixel.
    const struct requant_job *requant;
};

/// Whether the CPU has the instructions for the two functions below.
bool conv_vnni_has_dot(void);

/// Whether these stages can be done in registers.
bool conv_vnni_requantizes(const struct conv_requant *f);

/// Complete sums of n pixels and of a block of n_vectors, or their outputs; then `sums` is scratch
/// memory.
void conv_vnni_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors);

// Segments of contiguous bytes, `apart` from each other, and `pitch` further for each pixel of the
// output. All of these are multiples of `pixel`, the bytes of a pixel of the image.
struct vnni_bytes {
    const uint8_t *x;
    size_t n_segments, segment, apart, pitch, pixel;
};

/// The image's pixels in a window, so many pixels apart from each other; `more`: how many pixels
/// neighbouring windows have more than there are windows.
struct vnni_taps {
    size_t n, apart, more;
};

static inline struct vnni_taps vnni_taps_of(const struct vnni_bytes *b)
{
    const size_t n = b->n_segments * b->segment / b->pixel;
    const size_t apart = b->n_segments > 1 ? b->apart / b->pixel : 1;
    return (struct vnni_taps){n, apart, (n - 1) * apart};
}

/// Whether the pixels of a window, which others share, take fewer vectors of so many bytes by
/// themselves.
static inline bool vnni_shares_pixels(const struct vnni_bytes *b, size_t vector)
{
    const size_t each = (b->pixel + vector - 1) / vector;
    return b->pitch == b->pixel && each < b->n_segments * ((b->segment + vector - 1) / vector);
}

/// Sums of the bytes of n pixels; at least CONV_LANES sums are written.
void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums);

// ---- with AVX2 (avx2/) ----
//
// Its byte multiplication (vpmaddubsw) adds two products of an uint8 and an int8 in 16 bits, which
// saturate. So an image whose bytes are too large for that is split:
//
//   X = low + high, low = min(X, limit)     X: raised by 128; |w0 + w1| * limit fits 16 bits
//
// limit is 128 at least, whatever the weights are, so high is 127 at most and fits, too. Behind
// activations few bytes are above it. `high` is another line behind the first, of which only quads
// that are not 0 are multiplied: sums are exact, and take three instructions where int16
// (conv_int16.h) takes four. Where many bytes are large it would take six: images whose zero point
// is not near the lowest number, and inputs of the model, are left to int16.
//
// Two quads of low whose four products of a lane fit 16 bits together are a pair: their products
// are added before they become 32 bits, which saves half an instruction of three. A quad's weights
// fit those of nearly any other one, or of few: where most quads find one, and a segment has enough
// of them, a block's quads are matched, and have an order of their own.

#define SPLIT_LANES   8  // sums of a vector
#define SPLIT_VECTORS 2  // in a block at most
#define SPLIT_BEHIND  32 // bytes behind a line of `high` that may be read

/// Whether the CPU has these instructions and no exact ones, and bytes above the limit are likely
/// to be few.
bool conv_split_fits(const struct step *s, const struct conv *c);

/// The limit for n packed weights, which is 255 where nothing needs to be split.
uint8_t conv_split_limit(const int8_t *w, size_t n);

/// Matches the quads of all blocks of v, whose limit is set, and puts weights in that order, where
/// that pays: then v is `paired`, and its limit may be lower.
int conv_split_match(struct step *s, struct conv_vnni *v, struct error *e);

/// Splits n bytes of an image, raised: low takes their place.
void conv_split(uint8_t *x, size_t n, uint8_t limit, uint8_t *high);

/// As conv_vnni_sum() and conv_vnni_sum_bytes(). The second one, of bytes that are not split, may
/// read SPLIT_BEHIND bytes behind them.
void conv_split_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors);
void conv_split_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums);
