// Sums to int8 by a lookup table with NEON: lut_kernel.h has the formula, lut.h the segments.
//
//   64 sums -> 16 vectors of numbers, int32 -> 8 of positions, int16 -> 4 of segments, bytes
//   slope, offset = that byte of 128, which are in 8 registers      tbl, tbx; of 256: in 16
//   line = offset + (l * slope >> shift) - LUT_FALL * l             umull of bytes, int16
//   stored = its upper byte
//
// Beyond the tables stored values are straight lines: y in integers, rounded down as the upper half
// of a product of 64 bits; stored by a fused multiply-add of LUT_ROUNDER.
//
// Why it is fast: no byte goes through a general register. 64 sums share the loads of a table;
// tables that saturate are clamped to their segments, and need nothing else.
//
// Compiled without contracted products. Tests: test_sim_lut of the preset arm64.
#include "npu/sim/simd/lut_kinds.h"

#ifdef __aarch64__
#include <math.h>
#include <stdlib.h>

// What lies beyond one end, in integers: y = edge + (((v - from) << wide) * steep >> 31), where
// slope / 2^slope_shift is (steep << wide) / 2^31. Both factors fit 32 bits (lut_fits_lines()).
struct neon_end {
    int32x4_t bound, from, wide, steep, edge;
};

struct neon_job {
    struct lut_job job;
    int16x8_t low, high, start, bits, shift; // numbers are clamped to the first two
    uint8x16_t in_segment;
    float32x4_t bn, to_table, out_factor, out_offset;
    struct neon_end ends[2];
};

NEON_INLINE struct neon_end neon_end(const struct lut_kernel *k, const int side)
{
    const struct graph_lut *lut = k->lut;
    const int all = 31 - (int)lut->slope_shift[side];
    const uint32_t most = (uint32_t)abs(k->bounds[side]) - LUT_REACH; // what (v - from) comes to
    const int room = most ? __builtin_clz(most) - 1 : all, wide = room < all ? room : all;
    return (struct neon_end){
        .bound = vdupq_n_s32(k->bounds[side]),
        .from = vdupq_n_s32(side ? LUT_REACH : -LUT_REACH),
        .wide = vdupq_n_s32(wide),
        .steep = vdupq_n_s32((int32_t)(lut->slope[side] * (INT64_C(1) << (all - wide)))),
        .edge = vdupq_n_s32(side ? lut->above[LUT_POINTS - 1] : lut->below[0])};
}

NEON_INLINE struct neon_job neon_begin(const struct lut_job *job)
{
    const struct lut_kernel *k = job->kernel;
    const struct lut_segments *s = k->segments;
    const int start = s->first - LUT_REACH, last = start + (int)(s->n << s->bits) - 1;
    const int bits = (int)s->bits, shift = (int)s->shift;
    const bool alike = s->saturates || !k->lut->slope[0]; // all below the segments
    return (struct neon_job){
        .job = *job,
        .low = vdupq_n_s16((int16_t)(alike ? start : INT16_MIN)),
        .high = vdupq_n_s16((int16_t)last),
        .start = vdupq_n_s16((int16_t)start),
        .bits = vdupq_n_s16((int16_t)-bits),
        .shift = vdupq_n_s16((int16_t)-shift),
        .in_segment = vdupq_n_u8((uint8_t)((1 << s->bits) - 1)),
        .bn = vdupq_n_f32(k->bn),
        .to_table = vdupq_n_f32(k->to_table),
        .out_factor = vdupq_n_f32((float)ldexp(k->lut->out_factor, -(int)k->lut->out_shift)),
        .out_offset = vdupq_n_f32(LUT_ROUNDER + (float)k->lut->out_offset),
        .ends = {neon_end(k, 0), neon_end(k, 1)}};
}

// The numbers w that 16 sums become.
NEON_INLINE void neon_numbers(const struct neon_job *t, const int32_t *sums, size_t channel,
                              const bool complete, int32x4_t w[4])
{
    const float32x4_t rounder = vdupq_n_f32(LUT_ROUNDER);
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        int32x4_t sum = vld1q_s32(sums + 4 * i);
        if (!complete)
            sum = vaddq_s32(sum, vld1q_s32(t->job.bias + channel + 4 * i));
        const float32x4_t factor = vld1q_f32(t->job.factor + channel + 4 * i);
        float32x4_t x = vfmaq_f32(rounder, vcvtq_f32_s32(sum), factor);
        x = vfmaq_f32(t->to_table, x, t->bn);
        if (!complete) // bits of floats far below would wrap; far above they do not
            x = vmaxq_f32(x, vdupq_n_f32(LUT_ROUNDER - LUT_MAX_V));
        w[i] = vsubq_s32(vreinterpretq_s32_f32(x), vreinterpretq_s32_f32(rounder));
    }
}

// Numbers as positions from the first segment on; those of tables that do not saturate are 2^15 and
// more where they are beyond.
NEON_INLINE int16x8_t neon_position(const struct neon_job *t, int32x4_t first, int32x4_t second,
                                    const bool saturates)
{
    int16x8_t v = vmaxq_s16(vqmovn_high_s32(vqmovn_s32(first), second), t->low);
    if (saturates)
        v = vminq_s16(v, t->high);
    return vsubq_s16(v, t->start);
}

NEON_INLINE int32x4_t neon_line(const struct neon_end *e, int32x4_t v)
{
    return vaddq_s32(vqdmulhq_s32(vshlq_s32(vsubq_s32(v, e->from), e->wide), e->steep), e->edge);
}

// Stored values beyond the tables, of 4 numbers.
NEON_INLINE int32x4_t neon_beyond(const struct neon_job *t, int32x4_t v, const bool only_above)
{
    const struct neon_end *below = &t->ends[0], *above = &t->ends[1];
    const float32x4_t rounder = vdupq_n_f32(LUT_ROUNDER);
    const uint32x4_t negative = vcltzq_s32(v);
    v = vminq_s32(v, above->bound);
    int32x4_t y = neon_line(above, v);
    if (!only_above)
        y = vbslq_s32(negative, neon_line(below, vmaxq_s32(v, below->bound)), y);
    float32x4_t x = vfmaq_f32(t->out_offset, vcvtq_f32_s32(y), t->out_factor);
    x = vmaxq_f32(x, vdupq_n_f32(LUT_ROUNDER - 128));
    return vsubq_s32(vreinterpretq_s32_f32(x), vreinterpretq_s32_f32(rounder));
}

// 16 stored values, where u is beyond the tables; others as they are.
NEON_INLINE int8x16_t neon_mix_beyond(const struct neon_job *t, const int32x4_t v[4],
                                      const int16x8_t u[2], const bool above, int8x16_t stored)
{
    const int16x8_t low =
        vqmovn_high_s32(vqmovn_s32(neon_beyond(t, v[0], above)), neon_beyond(t, v[1], above));
    const int16x8_t high =
        vqmovn_high_s32(vqmovn_s32(neon_beyond(t, v[2], above)), neon_beyond(t, v[3], above));
    const uint8x16_t upper =
        vuzp2q_u8(vreinterpretq_u8_s16(u[0]), vreinterpretq_u8_s16(u[1])); // 2^15 and more
    return vbslq_s8(vcltzq_s8(vreinterpretq_s8_u8(upper)), vqmovn_high_s16(vqmovn_s16(low), high),
                    stored);
}

// Puts exceptions in their places.
NEON_INLINE int8x16_t neon_mix_exceptions(const struct lut_segments *s, const int16x8_t u[2],
                                          int8x16_t stored)
{
    for (uint32_t i = 0; i < s->n_exceptions; i++) {
        const int16x8_t position = vdupq_n_s16((int16_t)s->exceptions[i]);
        const uint8x16_t same = vuzp1q_u8(vreinterpretq_u8_u16(vceqq_s16(u[0], position)),
                                          vreinterpretq_u8_u16(vceqq_s16(u[1], position)));
        stored = vbslq_s8(same, vdupq_n_s8(s->values[i]), stored);
    }
    return stored;
}

// The lines' values of 16 positions.
NEON_INLINE int8x16_t neon_lines(const struct neon_job *t, const int16x8_t u[2], uint8x16_t slope,
                                 uint8x16_t low, uint8x16_t high)
{
    const uint8x16_t fall = vdupq_n_u8(LUT_FALL);
    const uint8x16_t in =
        vandq_u8(vuzp1q_u8(vreinterpretq_u8_s16(u[0]), vreinterpretq_u8_s16(u[1])), t->in_segment);
    uint16x8_t first = vshlq_u16(vmull_u8(vget_low_u8(in), vget_low_u8(slope)), t->shift);
    uint16x8_t second = vshlq_u16(vmull_high_u8(in, slope), t->shift);
    first = vaddq_u16(first, vreinterpretq_u16_u8(vzip1q_u8(low, high)));
    second = vaddq_u16(second, vreinterpretq_u16_u8(vzip2q_u8(low, high)));
    first = vmlsl_u8(first, vget_low_u8(in), vget_low_u8(fall));
    second = vmlsl_high_u8(second, in, fall);
    return vreinterpretq_s8_u8(
        vuzp2q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second)));
}

NEON_INLINE void neon_64(const struct neon_job *t, const struct lut_kind kind, const int32_t *sums,
                         size_t channel, int8_t *dst)
{
    const struct lut_segments *s = t->job.kernel->segments;
    int32x4_t v[4 * VECTORS];
    int16x8_t u[2 * VECTORS];
    uint8x16_t k[VECTORS], slope[VECTORS], low[VECTORS], high[VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < VECTORS; i++) {
        neon_numbers(t, sums + 16 * i, channel + 16 * (size_t)i, kind.complete, v + 4 * i);
        u[2 * i] = neon_position(t, v[4 * i], v[4 * i + 1], kind.saturates);
        u[2 * i + 1] = neon_position(t, v[4 * i + 2], v[4 * i + 3], kind.saturates);
        k[i] = vuzp1q_u8(
            vreinterpretq_u8_u16(vshlq_u16(vreinterpretq_u16_s16(u[2 * i]), t->bits)),
            vreinterpretq_u8_u16(vshlq_u16(vreinterpretq_u16_s16(u[2 * i + 1]), t->bits)));
    }
    neon_look_up(s->slope, k, kind.halves, slope);
    neon_look_up(s->offset_low, k, kind.halves, low);
    neon_look_up(s->offset_high, k, kind.halves, high);
#pragma GCC unroll 4
    for (int i = 0; i < VECTORS; i++) {
        int8x16_t stored = neon_lines(t, u + 2 * i, slope[i], low[i], high[i]);
        if (s->n_exceptions)
            stored = neon_mix_exceptions(s, u + 2 * i, stored);
        if (!kind.saturates && vminvq_s16(vminq_s16(u[2 * i], u[2 * i + 1])) < 0)
            stored = neon_mix_beyond(t, v + 4 * i, u + 2 * i, kind.above, stored);
        vst1q_s8(dst + 16 * i, stored);
    }
}

NEON_INLINE void neon_all(const struct lut_job *job, const struct lut_kind kind)
{
    const struct neon_job t = neon_begin(job);
    LUT_EACH(job, neon_64(&t, kind, sums, channel, to));
}

LUT_KINDS(, neon_all)

void lut_sums_lines(const struct lut_job *job)
{
    const bool saturates = job->kernel->segments->saturates;
    run_kind(job, saturates ? 2 : !job->kernel->lut->slope[0]);
}

bool lut_has_lines(void)
{
    return true;
}
#endif
