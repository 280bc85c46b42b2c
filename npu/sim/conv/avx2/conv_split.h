// The byte multiplication of AVX2 (vpmaddubsw) in place of AVX512-VNNI's (conv_vnni.h): two
// products of an uint8 and an int8 are added in 16 bits, which saturate. So an image whose bytes
// are too large for that is split:
//
//   X = low + high, low = min(X, limit)     X: raised by 128; |w0 + w1| * limit fits 16 bits
//
// limit is 128 at least, whatever the weights are, so high is 127 at most and fits, too. Behind
// activations few bytes are above it. `high` is another line behind the first, of which only quads
// that are not 0 are multiplied: sums are exact, and take three instructions where int16
// (conv_int16.h) takes four. Where many bytes are large it would take six: images whose zero point
// is not near the lowest number, and inputs of the model, are left to int16.
#pragma once

#include "npu/sim/conv/conv.h"

#define SPLIT_LANES   8  // sums of a vector
#define SPLIT_VECTORS 2  // in a block at most
#define SPLIT_BEHIND  32 // bytes behind a line of `high` that may be read

struct vnni_pixels;
struct vnni_bytes;

/// Whether the CPU has these instructions and no exact ones, and bytes above the limit are likely
/// to be few.
bool conv_split_fits(const struct step *s, const struct conv *c);

/// The limit for n packed weights, which is 255 where nothing needs to be split.
uint8_t conv_split_limit(const int8_t *w, size_t n);

/// Splits n bytes of an image, raised: low takes their place.
void conv_split(uint8_t *x, size_t n, uint8_t limit, uint8_t *high);

/// As conv_vnni_sum() and conv_vnni_sum_bytes(). The second one, of bytes that are not split, may
/// read SPLIT_BEHIND bytes behind them.
void conv_split_sum(const struct vnni_pixels *p, size_t n, size_t n_vectors);
void conv_split_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums);
