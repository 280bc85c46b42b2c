// Sums to int8 by the steps of a lookup table (lut_steps.h), with NEON of 64-bit ARM.
//
//   64 sums -> 16 vectors of numbers, floats (lut_kernel.h) -> 8 of positions, uint16
//   low byte, segment = 4 vectors of bytes each                        uzp1
//   outcome = base[segment]                                            tbl, tbx: 64 bytes each
//   outcome -= low byte > at[…][segment]                               tbl, tbx, cmhi, sub
//
// Why it is fast: no byte goes through a general register, and 64 sums share the loads of a table.
//
// Compiled without contracted products. Tests: test_sim_lut of the preset arm64.
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/lut_kinds.h"
#include "npu/sim/simd/lut_steps/lut_steps.h"

#ifdef __aarch64__

struct steps_job {
    struct lut_job job;
    bool of_v, falls;
    float32x4_t bn, to_table;
    int32x4_t origin; // bits of the first number as a float
    uint16x8_t reach; // the last position
    int16x8_t bits;
    uint8x16_t turned;
};

NEON_INLINE struct steps_job steps_begin(const struct lut_job *job)
{
    const struct lut_kernel *k = job->kernel;
    const struct lut_steps *s = k->steps;
    return (struct steps_job){
        .job = *job,
        .of_v = s->of_v,
        .falls = s->falls,
        .bn = vdupq_n_f32(k->bn),
        .to_table = vdupq_n_f32(k->to_table),
        .origin = vdupq_n_s32((int32_t)float_bits(LUT_ROUNDER) + s->first),
        .reach = vdupq_n_u16((uint16_t)(s->last - s->first)),
        .bits = vdupq_n_s16((int16_t) - (int)s->bits),
        .turned = vdupq_n_u8(s->turned),
    };
}

// 8 sums as positions. Bits of floats are as far apart as their numbers near LUT_ROUNDER, and
// farther on in the same order while they are positive.
NEON_INLINE uint16x8_t steps_positions(const struct steps_job *t, const int32_t *sums,
                                       size_t channel, const bool complete)
{
    const float32x4_t rounder = vdupq_n_f32(LUT_ROUNDER);
    int32x4_t from_first[2];
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++) {
        int32x4_t sum = vld1q_s32(sums + 4 * i);
        if (!complete)
            sum = vaddq_s32(sum, vld1q_s32(t->job.bias + channel + 4 * i));
        const float32x4_t factor = vld1q_f32(t->job.factor + channel + 4 * i);
        float32x4_t x = vfmaq_f32(rounder, vcvtq_f32_s32(sum), factor);
        if (!t->of_v)
            x = vfmaq_f32(t->to_table, x, t->bn);
        if (!complete)
            x = vmaxq_f32(x, vdupq_n_f32(LUT_ROUNDER - LUT_MAX_V));
        from_first[i] = vsubq_s32(vreinterpretq_s32_f32(x), t->origin);
    }
    return vminq_u16(vqmovun_high_s32(vqmovun_s32(from_first[0]), from_first[1]), t->reach);
}

NEON_INLINE void steps_64(const struct steps_job *t, const int32_t *sums, size_t channel,
                          int8_t *dst, const bool wide, const bool complete)
{
    const struct lut_steps *s = t->job.kernel->steps;
    uint8x16_t low[VECTORS], segment[VECTORS], stored[VECTORS], at[VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < VECTORS; i++) {
        const size_t from = 16 * (size_t)i;
        const uint16x8_t first = steps_positions(t, sums + from, channel + from, complete);
        const uint16x8_t second = steps_positions(t, sums + from + 8, channel + from + 8, complete);
        low[i] = vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second));
        segment[i] = vuzp1q_u8(vreinterpretq_u8_u16(vshlq_u16(first, t->bits)),
                               vreinterpretq_u8_u16(vshlq_u16(second, t->bits)));
        if (t->falls)
            low[i] = veorq_u8(low[i], vcleq_u8(segment[i], t->turned));
    }
    neon_look_up(s->base, segment, wide, stored);
    for (uint32_t k = 0; k < s->most; k++) {
        neon_look_up(s->at[k], segment, wide, at);
#pragma GCC unroll 4
        for (int i = 0; i < VECTORS; i++)
            stored[i] = vsubq_u8(stored[i], vcgtq_u8(low[i], at[i]));
    }
#pragma GCC unroll 4
    for (int i = 0; i < VECTORS; i++)
        vst1q_s8(dst + 16 * i, vreinterpretq_s8_u8(stored[i]));
}

#define STEPS(name, wide, complete)                                                                \
    static void name(const struct lut_job *job)                                                    \
    {                                                                                              \
        const struct steps_job t = steps_begin(job);                                               \
        LUT_EACH(job, steps_64(&t, sums, channel, to, wide, complete));                            \
    }

STEPS(steps_narrow, false, false)
STEPS(steps_narrow_complete, false, true)
STEPS(steps_wide, true, false)
STEPS(steps_wide_complete, true, true)

void lut_sums_steps(const struct lut_job *job)
{
    static void (*const kinds[2][2])(const struct lut_job *job) = {
        {steps_narrow, steps_narrow_complete}, {steps_wide, steps_wide_complete}};
    kinds[job->kernel->steps->n == LUT_STEPS_SEGMENTS][job->complete](job);
}

bool lut_has_steps(void)
{
    return true;
}
#endif
