// What the tiles of integer convolutions with NEON have in common: products of bytes
// (conv_neon_sum.c) and of int16 (conv_neon_int16.c).
//
// A tile is n pixels x n_vectors of NEON_LANES channels, 6 x 2 or 8 x 1 at most: 24 or 16 of the 32
// registers have its sums, n a vector of each pixel, and two have weights. All loops over a tile
// are unrolled, and gcc leaves them in their order (npu/sim/CMakeLists.txt).
#pragma once

#include <stddef.h>

#define NEON_LANES      8 // channels of a vector of weights: two vectors of sums
#define NEON_MAX_PIXELS 8
#define NEON_MAX_SUMS   24

/// Loads a vector of each of n pixels from at[i] + done on, and goes on by its elements.
#define NEON_LOAD_PIXELS(load, elements)                                                           \
    _Pragma("GCC unroll 8") for (int i = 0; i < n; i++) x[i] = load(at[i] + done);                 \
    done += (elements);

/// Adds the products of element k of all pixels' vectors. The source says what is multiplied, by
/// two vectors of weights that are loaded by one instruction: LOAD_WEIGHTS(w, k * n_vectors + v)
/// declares those of TOGETHER vectors of channels, and MULTIPLY(sum, x, k) adds to their sums.
#define NEON_ADD(k)                                                                                \
    _Pragma("GCC unroll 2") for (int v = 0; v < n_vectors; v += TOGETHER)                          \
    {                                                                                              \
        LOAD_WEIGHTS(w, (k)*n_vectors + v);                                                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)                                        \
            MULTIPLY(sums + (i * n_vectors + v) * 2, x[i], k);                                     \
    }

/// A function for each number of pixels and vectors: DEFINE(n, n_vectors).
#define NEON_UP_TO_6(DEFINE, v)                                                                    \
    DEFINE(1, v) DEFINE(2, v) DEFINE(3, v) DEFINE(4, v) DEFINE(5, v) DEFINE(6, v)
#define NEON_TILES_1(DEFINE) NEON_UP_TO_6(DEFINE, 1) DEFINE(7, 1) DEFINE(8, 1)
#define NEON_TILES_2(DEFINE) NEON_UP_TO_6(DEFINE, 2)

/// How many of the pixels that are left the next tile has: no tile is a small one.
static inline size_t neon_tile_pixels(size_t left, size_t n_vectors)
{
    const size_t most = n_vectors > 1 ? 6 : 8;
    return left >= 2 * most ? most : left > most ? (left + 1) / 2 : left;
}
