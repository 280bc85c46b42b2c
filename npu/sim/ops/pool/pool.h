// What the ways of op_pool.c have in common: windows over an image, and one output line of them.
// Images have their channels last; a pixel is its channels' elements.
#pragma once

#include "npu/sim/exec/step.h"
#include "npu/sim/exec/window.h"

// The part of a window that is inside the image, along one dimension: taps [first, last).
struct span {
    uint32_t first, last;
    int64_t start;   // of tap 0, in the image
    uint32_t padded; // taps inside the image and its padding
};

/// Output `out` along dimension i of an image of `size`.
struct span pool_span(const struct graph_window *w, int i, uint32_t out, uint32_t size);

// A window of a step, over one image of its batch.
struct window_at {
    const struct step *s;
    const uint8_t *image;
    struct span y, x;
};

/// The image's line under tap ky, which is inside; and its pixel under tap kx.
const uint8_t *pool_line(const struct window_at *at, uint32_t ky);
const uint8_t *pool_pixel(const struct window_at *at, uint32_t ky, uint32_t kx);

/// Taps of the window that are inside the image.
static inline uint32_t pool_inside(const struct window_at *at)
{
    return (at->y.last - at->y.first) * (at->x.last - at->x.first);
}

/// By what the sum of the window is multiplied to be its average.
float pool_mean_factor(const struct window_at *at);

// How windows become one element each, in two passes (pool_join.c).
struct joint;

/// The largest stored element: of int8, fp16 or float32.
const struct joint *pool_largest(enum tensor_type type);

/// Sums of int8 in int16, for up to 256 taps.
const struct joint *pool_sums(void);

/// The windows of one output line, whose `y` is set. `line` is scratch for one element of each of
/// the image's pixels in a line; dst takes one for each of the output's.
void pool_join(const struct window_at *at, const struct joint *j, uint8_t *line, uint8_t *dst);

// Windows of as many taps beside each other: where the first one's are, and how many elements there
// are from one window's to the next one's.
struct pool_windows {
    const float *const *taps;
    size_t n_taps, step, n, channels;
};

/// y[i][c] = Σ taps[t][i * step + c] for n windows, in the order of the taps.
void pool_add_taps(float *y, const struct pool_windows *w);

/// sums[c] += Σ x[p * channels + c] over n_pixels, in their order; sums are integers of int8.
void pool_add_pixels(float *sums, const float *x, size_t n_pixels, size_t channels);
void pool_add_bytes(int32_t *sums, const int8_t *x, size_t n_pixels, size_t channels);
