// The inner loops of depthwise convolutions of integers with NEON's dot products
// (conv_depthwise.c has the formula and how four lines are joined to quads).
//
//   sums[c] += Σ over 4 rows: tap[row][c] (int8) * x[row][c] (int8)       one sdot for 4 channels
//
// Both are signed: taps need not be lowered, unless they are no int8 with their zero points; then
// window sums are counted, too (as in conv_depthwise_vnni.c). Four units, or two with window sums,
// have 16 registers and share the loads of a tap. Lines are joined by zips, 16 elements at a time:
//
//   a0 a1 … | b0 b1 …   --8 bits-->   a0 b0 a1 b1 …  --16 bits-->   a0 b0 c0 d0 a1 b1 c1 d1 …
//   c0 c1 … | d0 d1 …                 c0 d0 c1 d1 …
//
// Sums are exact, and wrap at 32 bits. Tests: test_sim_conv of the preset arm64.
#include "npu/sim/conv/conv_depthwise.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define NEON        __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON static inline __attribute__((always_inline, no_sanitize("undefined")))
#define VECTORS     4 // of 4 channels: CONV_LANES

// The sums of n neighbouring units, CONV_LANES elements each; `lowered`: with their window sums.
NEON_INLINE void neon_sum_lanes(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                                const int n, const bool lowered)
{
    const int32_t *taps = (const int32_t *)l->taps + o;
    int32x4_t sums[DEPTHWISE_FEW * VECTORS], windows[DEPTHWISE_FEW * VECTORS];
    for (int i = 0; i < n * VECTORS; i++)
        sums[i] = windows[i] = vdupq_n_s32(0);
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const int32_t *x = (const int32_t *)l->sources[k] + in + o;
        for (int v = 0; v < VECTORS; v++) {
            int8x16_t tap = vreinterpretq_s8_s32(vld1q_s32(taps + 4 * v));
            for (int i = 0; i < n; i++) {
                const int at = i * VECTORS + v;
                int8x16_t quads = vreinterpretq_s8_s32(vld1q_s32(x + (size_t)i * l->in + 4 * v));
                sums[at] = vdotq_s32(sums[at], tap, quads);
                if (lowered)
                    windows[at] = vdotq_s32(windows[at], vdupq_n_s8(1), quads);
            }
        }
    }
    for (int i = 0; i < n * VECTORS; i++) {
        const size_t lane = (size_t)i % VECTORS * 4;
        if (lowered)
            sums[i] = vmlaq_s32(sums[i], windows[i], vld1q_s32(l->tap_min + o + lane));
        vst1q_s32((int32_t *)l->to + out + o + (size_t)(i / VECTORS) * l->out + lane, sums[i]);
    }
}

NEON_INLINE void neon_sum_plain(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                                int n)
{
    neon_sum_lanes(l, in, out, o, n, false);
}

NEON_INLINE void neon_sum_lowered(const struct depthwise_line *l, size_t in, size_t out, size_t o,
                                  int n)
{
    neon_sum_lanes(l, in, out, o, n, true);
}

NEON void depthwise_sum_quads(const struct depthwise_line *l)
{
    if (l->lowered)
        depthwise_each(l, DEPTHWISE_FEW / 2, neon_sum_lowered);
    else
        depthwise_each(l, DEPTHWISE_FEW, neon_sum_plain);
}

// 16 elements of four lines.
static inline void neon_interleave(const uint8_t *const rows[4], size_t n_rows, size_t at,
                                   uint32_t *to)
{
    uint8x16_t x[4];
    for (size_t i = 0; i < 4; i++)
        x[i] = i < n_rows ? vld1q_u8(rows[i] + at) : vdupq_n_u8(0);
    uint8x16x2_t ab = vzipq_u8(x[0], x[1]), cd = vzipq_u8(x[2], x[3]);
    for (int i = 0; i < 2; i++) {
        uint16x8x2_t quads =
            vzipq_u16(vreinterpretq_u16_u8(ab.val[i]), vreinterpretq_u16_u8(cd.val[i]));
        vst1q_u32(to + at + 8 * i, vreinterpretq_u32_u16(quads.val[0]));
        vst1q_u32(to + at + 8 * i + 4, vreinterpretq_u32_u16(quads.val[1]));
    }
}

void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to)
{
    n_rows = n_rows < 4 ? n_rows : 4;
    size_t at = 0;
    for (; at + 16 <= n; at += 16)
        neon_interleave(rows, n_rows, at, to);
    for (; at < n; at++) {
        to[at] = 0;
        for (size_t i = 0; i < n_rows; i++)
            to[at] |= (uint32_t)rows[i][at] << 8 * i;
    }
}
#endif
