// The arithmetic of conv_requantize.c with NEON, for sums in registers.
//
// Each stage is a fused multiply-add that rounds. Where no output can lie beyond 16 bits
// (requant_job.narrow), the lower halves of the last one's bits are the outputs, which saturate
// while they are narrowed; else bits are clamped as integers.
//
// A LeakyRelu's result is computed once. It is open, and must be computed in doubles, where it lies
// so near to the middle of two integers that the error of floats could have put it on the wrong
// side of it:
//
//   |x - round(x)| >= 1/2 - error
//
// Sources that include this are compiled without contracted products. Tests: test_sim_conv of the
// preset arm64.
#pragma once

#include "npu/sim/conv/conv_requantize.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <string.h>

#define REQUANT_INLINE  static inline __attribute__((always_inline, no_sanitize("undefined")))
#define REQUANT_VECTORS 4 // of 4 channels: CONV_LANES

// What all outputs have in common.
struct neon_constants {
    float32x4_t integer, out, to;
    int32x4_t min, max;  // of bits
    int8x16_t low, high; // of outputs
    int16x8_t zp_after;
};

// The factors of 4 channels, those that the kind needs.
struct neon_factors {
    float32x4_t stage, positive, negative;
};

REQUANT_INLINE struct neon_constants neon_constants(const struct requant_job *t)
{
    return (struct neon_constants){
        .integer = vdupq_n_f32(REQUANT_INTEGER_FLOAT),
        .out = vdupq_n_f32(t->out),
        .to = vdupq_n_f32(t->to_stored),
        .min = vreinterpretq_s32_f32(vdupq_n_f32(t->low)),
        .max = vreinterpretq_s32_f32(vdupq_n_f32(t->high)),
        .low = vdupq_n_s8(t->bounds[0]),
        .high = vdupq_n_s8(t->bounds[1]),
        .zp_after = vdupq_n_s16((int16_t)t->zp_after),
    };
}

REQUANT_INLINE struct neon_factors neon_factors(const struct requant_job *t, size_t k,
                                                const enum requant_kind kind)
{
    const bool leaky = requant_is_leaky(kind);
    struct neon_factors f;
    f.stage = vld1q_f32((kind == REQUANT_FLOAT32 ? t->factors.positive : t->factors.stage) + k);
    f.positive = leaky ? vld1q_f32(t->factors.positive + k) : f.stage;
    f.negative = leaky ? vld1q_f32(t->factors.negative + k) : f.stage;
    return f;
}

// The nearest integer, with REQUANT_INTEGER_FLOAT.
REQUANT_INLINE float32x4_t neon_stage(const struct neon_constants *k, float32x4_t v,
                                      float32x4_t factor)
{
    return vfmaq_f32(k->integer, v, factor);
}

// Rounded addends, less twice REQUANT_INTEGER_FLOAT: added to a stage that has it once, they leave
// the sum of both. All of that is exact.
REQUANT_INLINE float32x4_t neon_rounded_addend(const struct requant_job *t,
                                               const struct neon_constants *k, int32x4_t addend)
{
    const float32x4_t twice = vdupq_n_f32(2 * REQUANT_INTEGER_FLOAT);
    const float32x4_t x = vcvtq_f32_s32(vaddq_s32(addend, vdupq_n_s32(t->addend_offset)));
    return vsubq_f32(neon_stage(k, x, vdupq_n_f32(t->addend_factor)), twice);
}

// Of 4 outputs from `at` on.
REQUANT_INLINE float32x4_t neon_addend(const struct requant_job *t, const struct neon_constants *k,
                                       size_t at)
{
    int32_t four;
    memcpy(&four, t->addend + at, sizeof four);
    const int8x8_t x = vreinterpret_s8_s32(vdup_n_s32(four));
    return neon_rounded_addend(t, k, vmovl_s16(vget_low_s16(vmovl_s8(x))));
}

// Of CONV_LANES outputs.
REQUANT_INLINE void neon_addends(const struct requant_job *t, const struct neon_constants *k,
                                 size_t at, float32x4_t *more)
{
    const int8x16_t x = vld1q_s8(t->addend + at);
    const int16x8_t first = vmovl_s8(vget_low_s8(x)), second = vmovl_high_s8(x);
    more[0] = neon_rounded_addend(t, k, vmovl_s16(vget_low_s16(first)));
    more[1] = neon_rounded_addend(t, k, vmovl_high_s16(first));
    more[2] = neon_rounded_addend(t, k, vmovl_s16(vget_low_s16(second)));
    more[3] = neon_rounded_addend(t, k, vmovl_high_s16(second));
}

// A LeakyRelu's outputs; *far becomes how far any is from what it was before it was rounded.
REQUANT_INLINE float32x4_t neon_leaky(const struct neon_constants *k, const struct neon_factors *f,
                                      int32x4_t sums, const float32x4_t *more, float32x4_t *far)
{
    float32x4_t x = vcvtq_f32_s32(sums);
    const uint32x4_t negative = vcltzq_s32(sums);
    x = vbslq_f32(negative, vsubq_f32(neon_stage(k, x, f->stage), k->integer), x);
    const float32x4_t factor = vbslq_f32(negative, f->negative, f->positive);
    x = more ? vfmaq_f32(vmulq_f32(vaddq_f32(*more, k->integer), k->out), x, factor)
             : vmulq_f32(x, factor);
    const float32x4_t rounded = vaddq_f32(x, k->to);
    *far = vmaxq_f32(*far, vabdq_f32(x, vsubq_f32(rounded, k->to)));
    return rounded;
}

/// Outputs in the lowest bits of floats. `more`: the addends of these, or NULL.
REQUANT_INLINE float32x4_t neon_rounded(const struct neon_constants *k,
                                        const struct neon_factors *f, int32x4_t sums,
                                        const float32x4_t *more, const enum requant_kind kind,
                                        float32x4_t *far)
{
    if (requant_is_leaky(kind))
        return neon_leaky(k, f, sums, more, far);
    float32x4_t x = vcvtq_f32_s32(sums);
    if (kind == REQUANT_FLOAT32)
        return vaddq_f32(vmulq_f32(x, f->stage), k->to);
    x = neon_stage(k, x, f->stage);
    x = more ? vaddq_f32(x, *more) : vsubq_f32(x, k->integer);
    return vfmaq_f32(k->to, x, k->out);
}

/// CONV_LANES of these as int8, within bounds.
REQUANT_INLINE int8x16_t neon_narrow(const struct neon_constants *k, const float32x4_t *x,
                                     const bool narrow, const enum requant_kind kind)
{
    int32x4_t bits[REQUANT_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < REQUANT_VECTORS; v++) {
        bits[v] = vreinterpretq_s32_f32(x[v]);
        if (!narrow)
            bits[v] = vminq_s32(vmaxq_s32(bits[v], k->min), k->max);
    }
    int16x8_t first = vuzp1q_s16(vreinterpretq_s16_s32(bits[0]), vreinterpretq_s16_s32(bits[1]));
    int16x8_t second = vuzp1q_s16(vreinterpretq_s16_s32(bits[2]), vreinterpretq_s16_s32(bits[3]));
    if (kind == REQUANT_FLOAT32) {
        first = vaddq_s16(first, k->zp_after);
        second = vaddq_s16(second, k->zp_after);
    }
    int8x16_t y = vqmovn_high_s16(vqmovn_s16(first), second);
    return narrow ? vminq_s8(vmaxq_s8(y, k->low), k->high) : y;
}

/// Whether any output is open.
REQUANT_INLINE bool neon_is_open(const struct requant_job *t, float32x4_t far,
                                 const enum requant_kind kind)
{
    return requant_is_leaky(kind) && !(vmaxvq_f32(far) < 0.5f - t->error);
}
#endif
