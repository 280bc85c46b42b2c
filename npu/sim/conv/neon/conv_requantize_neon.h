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

#define REQUANT_INLINE  static inline __attribute__((always_inline, no_sanitize("undefined")))
#define REQUANT_VECTORS 4 // of 4 channels: CONV_LANES

// What all outputs have in common. A stage that follows another one takes REQUANT_INTEGER_FLOAT,
// which that leaves, with its own constant (to_merged), where a float holds it:
//
//   (v + integer) * out + (to - integer * out) = v * out + to      rounded once, so the same
struct neon_constants {
    float32x4_t integer, out, to, to_merged;
    int32x4_t min, max;  // of bits
    int8x16_t low, high; // of outputs
    int16x8_t zp_after, addend_offset;
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
        .to_merged = vdupq_n_f32(t->to_merged),
        .min = vreinterpretq_s32_f32(vdupq_n_f32(t->low)),
        .max = vreinterpretq_s32_f32(vdupq_n_f32(t->high)),
        .low = vdupq_n_s8(t->bounds[0]),
        .high = vdupq_n_s8(t->bounds[1]),
        .zp_after = vdupq_n_s16((int16_t)t->zp_after),
        .addend_offset = vdupq_n_s16((int16_t)t->addend_offset),
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

// Rounded addends, less REQUANT_INTEGER_FLOAT: added to a stage that has it, they leave the sum of
// both. All of that is exact, and ties are to even on that side of 0 as well.
REQUANT_INLINE float32x4_t neon_rounded_addend(const struct requant_job *t, int32x4_t addend)
{
    return vfmaq_n_f32(vdupq_n_f32(-REQUANT_INTEGER_FLOAT), vcvtq_f32_s32(addend),
                       t->addend_factor);
}

// Of 8 outputs.
REQUANT_INLINE void neon_addends(const struct requant_job *t, int16x8_t addends, float32x4_t *more)
{
    more[0] = neon_rounded_addend(t, vmovl_s16(vget_low_s16(addends)));
    more[1] = neon_rounded_addend(t, vmovl_high_s16(addends));
}

// Of n_vectors of 4 outputs: 2, or REQUANT_VECTORS.
REQUANT_INLINE void neon_load_addends(const struct requant_job *t, const struct neon_constants *k,
                                      size_t at, float32x4_t *more, const int n_vectors)
{
    if (n_vectors < REQUANT_VECTORS) {
        neon_addends(t, vaddw_s8(k->addend_offset, vld1_s8(t->addend + at)), more);
        return;
    }
    const int8x16_t x = vld1q_s8(t->addend + at);
    neon_addends(t, vaddw_s8(k->addend_offset, vget_low_s8(x)), more);
    neon_addends(t, vaddw_high_s8(k->addend_offset, x), more + 2);
}

// A LeakyRelu's outputs; *far becomes how far any is from what it was before it was rounded.
REQUANT_INLINE float32x4_t neon_leaky(const struct neon_constants *k, const struct neon_factors *f,
                                      int32x4_t sums, const float32x4_t *more, float32x4_t *far)
{
    const uint32x4_t is_negative = vcltzq_s32(sums);
    const float32x4_t positive = vcvtq_f32_s32(sums);
    const float32x4_t negative = vsubq_f32(neon_stage(k, positive, f->stage), k->integer);
    float32x4_t x;
    if (more) {
        x = vmulq_f32(vaddq_f32(*more, k->integer), k->out);
        x = vfmaq_f32(x, vbslq_f32(is_negative, negative, positive),
                      vbslq_f32(is_negative, f->negative, f->positive));
    } else {
        x = vbslq_f32(is_negative, vmulq_f32(negative, f->negative),
                      vmulq_f32(positive, f->positive));
    }
    const float32x4_t rounded = vaddq_f32(x, k->to);
    *far = vmaxq_f32(*far, vabdq_f32(x, vsubq_f32(rounded, k->to)));
    return rounded;
}

/// Outputs in the lowest bits of floats. `more`: the addends of these, or NULL; `merged`: of a
/// constant, as requant_job.merged.
REQUANT_INLINE float32x4_t neon_rounded(const struct neon_constants *k,
                                        const struct neon_factors *f, int32x4_t sums,
                                        const float32x4_t *more, const bool merged,
                                        const enum requant_kind kind, float32x4_t *far)
{
    if (requant_is_leaky(kind))
        return neon_leaky(k, f, sums, more, far);
    float32x4_t x = vcvtq_f32_s32(sums);
    if (kind == REQUANT_FLOAT32)
        return vaddq_f32(vmulq_f32(x, f->stage), k->to);
    x = neon_stage(k, x, f->stage);
    if (more)
        return vfmaq_f32(k->to, vaddq_f32(x, *more), k->out);
    return merged ? vfmaq_f32(k->to_merged, x, k->out)
                  : vfmaq_f32(k->to, vsubq_f32(x, k->integer), k->out);
}

// Two vectors of these in 16 bits; within bounds where they are not narrow.
REQUANT_INLINE int16x8_t neon_lower_halves(const struct neon_constants *k, const float32x4_t *x,
                                           const bool narrow, const enum requant_kind kind)
{
    int32x4_t bits[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        bits[v] = vreinterpretq_s32_f32(x[v]);
        if (!narrow)
            bits[v] = vminq_s32(vmaxq_s32(bits[v], k->min), k->max);
    }
    const int16x8_t y = vuzp1q_s16(vreinterpretq_s16_s32(bits[0]), vreinterpretq_s16_s32(bits[1]));
    return kind == REQUANT_FLOAT32 ? vaddq_s16(y, k->zp_after) : y;
}

/// CONV_LANES of these as int8, within bounds.
REQUANT_INLINE int8x16_t neon_narrow(const struct neon_constants *k, const float32x4_t *x,
                                     const bool narrow, const enum requant_kind kind)
{
    const int8x8_t first = vqmovn_s16(neon_lower_halves(k, x, narrow, kind));
    const int8x16_t y = vqmovn_high_s16(first, neon_lower_halves(k, x + 2, narrow, kind));
    return narrow ? vminq_s8(vmaxq_s8(y, k->low), k->high) : y;
}

/// A half of that, narrow.
REQUANT_INLINE int8x8_t neon_narrow_half(const struct neon_constants *k, const float32x4_t *x,
                                         const enum requant_kind kind)
{
    const int8x8_t y = vqmovn_s16(neon_lower_halves(k, x, true, kind));
    return vmin_s8(vmax_s8(y, vget_low_s8(k->low)), vget_low_s8(k->high));
}

/// Whether any output is open.
REQUANT_INLINE bool neon_is_open(const struct requant_job *t, float32x4_t far,
                                 const enum requant_kind kind)
{
    return requant_is_leaky(kind) && !(vmaxvq_f32(far) < 0.5f - t->error);
}

// A LeakyRelu's, all pixels of a vector of channels after the other: its factors are loaded once.
// Their floats take the place of sums.
REQUANT_INLINE float32x4_t neon_round_leaky(const struct requant_job *t,
                                            const struct neon_constants *k, size_t from,
                                            const int32x4_t *sums, float32x4_t *x, const int n,
                                            const int n_vectors)
{
    float32x4_t far = vdupq_n_f32(0);
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++) {
        const struct neon_factors f = neon_factors(t, from + (size_t)v * 4, REQUANT_LEAKY);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++)
            x[i * n_vectors + v] = neon_leaky(k, &f, sums[i * n_vectors + v], NULL, &far);
    }
    return far;
}

// Of a pixel.
REQUANT_INLINE void neon_store_rounded(const struct requant_job *t, const struct neon_constants *k,
                                       size_t at, const float32x4_t *x, const int n_vectors,
                                       const enum requant_kind kind)
{
    if (n_vectors == REQUANT_VECTORS)
        vst1q_s8(t->dst + at, neon_narrow(k, x, true, kind));
    else
        vst1_s8(t->dst + at, neon_narrow_half(k, x, kind));
}

/// Stores the outputs of n_vectors of 4 channels (2, or REQUANT_VECTORS) from `from` on, of n
/// pixels that are `pitch` apart, the first one at t->dst[at], whose sums are narrow. Pixel by
/// pixel: as sums become outputs, their registers are free for others. False: some are open.
REQUANT_INLINE bool neon_store_outputs(const struct requant_job *call, size_t from, size_t at,
                                       size_t pitch, const int32x4_t *sums, const int n,
                                       const int n_vectors, const enum requant_kind kind,
                                       const bool merged)
{
    const struct requant_job t = *call;
    const struct neon_constants k = neon_constants(&t);
    const bool add = requant_has_addend(kind);
    struct neon_factors f[REQUANT_VECTORS];
    float32x4_t far = vdupq_n_f32(0);
    if (kind == REQUANT_LEAKY) {
        float32x4_t rounded[8 * REQUANT_VECTORS];
        far = neon_round_leaky(&t, &k, from, sums, rounded, n, n_vectors);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++, at += pitch)
            neon_store_rounded(&t, &k, at, rounded + i * n_vectors, n_vectors, kind);
        return !neon_is_open(&t, far, kind);
    }
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++)
        f[v] = neon_factors(&t, from + (size_t)v * 4, kind);
#pragma GCC unroll 8
    for (int i = 0; i < n; i++, at += pitch) {
        float32x4_t x[REQUANT_VECTORS], more[REQUANT_VECTORS];
        if (add)
            neon_load_addends(&t, &k, at, more, n_vectors);
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            x[v] = neon_rounded(&k, &f[v], sums[i * n_vectors + v], add ? &more[v] : NULL, merged,
                                kind, &far);
        neon_store_rounded(&t, &k, at, x, n_vectors, kind);
    }
    return !neon_is_open(&t, far, kind);
}
#endif
