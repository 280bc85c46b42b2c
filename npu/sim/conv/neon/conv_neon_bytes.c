// Sums of bytes, with NEON's dot products: window sums where the kernel has no lane to spare
// (conv_vnni.h).
//
//   sums[pixel] = Σ over segments, Σ over the segment's bytes: x
//
// 16 bytes are added by one sdot with ones, and what is left of a segment by one with ones for its
// last bytes alone. Windows over several pixels are sums of the pixels' own, which are made once.
//
// Sums are exact. Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_vnni.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define NEON        __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON static inline __attribute__((always_inline, no_sanitize("undefined")))
#define FEW         8 // pixels whose bytes are summed together
#define LANES       4
#define MOST_PIXELS 1024 // whose sums are kept

static const int8_t last_ones[32] = {[16] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// A segment of each of n pixels.
NEON_INLINE void neon_sum_bytes(const int8_t *x, size_t pitch, size_t size, int32x4_t *sums,
                                int32_t *rest, const size_t n)
{
    const size_t whole = size / 16 * 16, left = size % 16;
    for (size_t at = 0; at < whole; at += 16)
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++)
            sums[i] = vdotq_s32(sums[i], vld1q_s8(x + i * pitch + at), vdupq_n_s8(1));
    if (whole && left) {
        const int8x16_t ones = vld1q_s8(last_ones + left);
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++)
            sums[i] = vdotq_s32(sums[i], vld1q_s8(x + i * pitch + size - 16), ones);
        return;
    }
    if (left >= 8) {
        const int8x16_t ones = vcombine_s8(vdup_n_s8(1), vld1_s8(last_ones + left));
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++) {
            const int8_t *from = x + i * pitch;
            const int8x16_t bytes = vcombine_s8(vld1_s8(from), vld1_s8(from + left - 8));
            sums[i] = vdotq_s32(sums[i], bytes, ones);
        }
        return;
    }
    for (size_t at = 0; at < left; at++)
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++)
            rest[i] += x[i * pitch + at];
}

// Of n pixels, 1 or FEW: whole vectors are written.
NEON_INLINE void neon_sum_pixels(const struct vnni_bytes *b, size_t first, int32_t *to,
                                 const size_t n)
{
    int32x4_t sums[FEW];
    int32_t rest[FEW] = {0};
#pragma GCC unroll 8
    for (size_t i = 0; i < FEW; i++)
        sums[i] = vdupq_n_s32(0);
    for (size_t k = 0; k < b->n_segments; k++)
        neon_sum_bytes((const int8_t *)b->x + first * b->pitch + k * b->apart, b->pitch, b->segment,
                       sums, rest, n);
#pragma GCC unroll 2
    for (size_t i = 0; i < n; i += LANES) {
        const int32x4_t one = vpaddq_s32(sums[i], sums[i + 1]);
        const int32x4_t other = vpaddq_s32(sums[i + 2], sums[i + 3]);
        vst1q_s32(to + first + i, vaddq_s32(vpaddq_s32(one, other), vld1q_s32(rest + i)));
    }
}

// The last ones of many are moved back so that they end where all end. Behind the last of few there
// is room for LANES more.
NEON_INLINE void neon_sum_each(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    if (n < FEW)
        for (size_t i = 0; i < n; i++)
            neon_sum_pixels(b, i, sums, 1);
    else
        for (size_t i = 0; i < n; i += FEW)
            neon_sum_pixels(b, i < n - FEW ? i : n - FEW, sums, FEW);
}

// Sums of n windows, one for each pixel, of `taps` pixels that are `apart` from each other.
NEON_INLINE void neon_join_pixels(const int32_t *pixels, size_t taps, size_t apart, size_t n,
                                  int32_t *sums)
{
    for (size_t i = 0; i < n; i += LANES) {
        int32x4_t sum = vld1q_s32(pixels + i);
        for (size_t k = 1; k < taps; k++)
            sum = vaddq_s32(sum, vld1q_s32(pixels + i + k * apart));
        vst1q_s32(sums + i, sum);
    }
}

NEON void conv_vnni_sum_bytes(const struct vnni_bytes *b, size_t n, int32_t *sums)
{
    int32_t pixels[MOST_PIXELS + LANES];
    const struct vnni_taps all = vnni_taps_of(b);
    const size_t taps = all.n, apart = all.apart, more = all.more;
    if (taps == 1 || b->pitch != b->pixel || more + LANES > MOST_PIXELS) {
        neon_sum_each(b, n, sums);
        return;
    }
    for (size_t done = 0, count; done < n; done += count) {
        const struct vnni_bytes each = {.x = b->x + done * b->pitch,
                                        .n_segments = 1,
                                        .segment = b->pixel,
                                        .pitch = b->pixel,
                                        .pixel = b->pixel};
        count = n - done < MOST_PIXELS - more ? n - done : MOST_PIXELS - more;
        neon_sum_each(&each, count + more, pixels);
        memset(pixels + count + more, 0,
               LANES * sizeof *pixels); // is read for sums that nobody needs
        neon_join_pixels(pixels, taps, apart, count, sums + done);
    }
}
#endif
