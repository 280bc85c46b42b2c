// The arithmetic of conv_requantize.c on 16 sums in a register, with AVX512.
//
// Two fused multiply-adds give both bounds, rounded and with zp; their bits are compared, and those
// of one clamped as integers and narrowed. Sources that include this are compiled without
// contracted products.
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#pragma once

#include "npu/sim/conv/conv_requantize.h"
#include "npu/sim/simd/vnni.h"

#ifdef __x86_64__
// The multipliers of CONV_LANES channels: those below and above the exact one, or the nearest as
// both.
struct requant_multipliers {
    __m512 low, high, negative_low, negative_high;
};

VNNI_INLINE struct requant_multipliers requant_multipliers(const struct requant_job *t,
                                                           const enum requant_kind kind, size_t k)
{
    struct requant_multipliers u;
    bool nearest = kind == REQUANT_FLOAT32 || kind == REQUANT_ADD;
    u.low = _mm512_loadu_ps((nearest ? t->positive.nearest : t->positive.low) + k);
    u.high = nearest ? u.low : _mm512_loadu_ps(t->positive.high + k);
    u.negative_low = _mm512_loadu_ps((nearest ? t->negative.nearest : t->negative.low) + k);
    u.negative_high = nearest ? u.negative_low : _mm512_loadu_ps(t->negative.high + k);
    return u;
}

VNNI_INLINE __m512 requant_addend(const struct requant_job *t, size_t at, float term)
{
    __m512 v =
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(t->addend + at))));
    return _mm512_fmadd_ps(v, _mm512_set1_ps(t->addend_nearest), _mm512_set1_ps(term));
}

/// The int8 that sums become, in the lowest bytes of each lane. Bits of *differ are set where they
/// must be computed in doubles. `at` is the output element of the first lane.
VNNI_INLINE __m512i requant_sums(const struct requant_job *t, const enum requant_kind kind,
                                 __m512i sums, const struct requant_multipliers *u, size_t at,
                                 __m512i *differ)
{
    __m512 v = _mm512_cvtepi32_ps(sums), to = _mm512_set1_ps(t->float_to_stored), low, high;
    __m512 low_multiplier = u->low, high_multiplier = u->high;
    if (kind == REQUANT_ADD || kind == REQUANT_LEAKY) {
        __mmask16 negative = _mm512_cmplt_epi32_mask(sums, _mm512_setzero_si512());
        low_multiplier = _mm512_mask_mov_ps(low_multiplier, negative, u->negative_low);
        high_multiplier = _mm512_mask_mov_ps(high_multiplier, negative, u->negative_high);
    }
    if (kind == REQUANT_FLOAT32) {
        low = high = _mm512_add_ps(_mm512_mul_ps(v, low_multiplier), to);
    } else if (kind == REQUANT_ADD) {
        low = _mm512_fmadd_ps(v, low_multiplier, requant_addend(t, at, t->addend_low));
        high = _mm512_fmadd_ps(v, low_multiplier, requant_addend(t, at, t->addend_high));
        low = _mm512_add_ps(low, to);
        high = _mm512_add_ps(high, to);
    } else {
        low = _mm512_fmadd_ps(v, low_multiplier, to);
        high = _mm512_fmadd_ps(v, high_multiplier, to);
    }
    *differ = _mm512_ternarylogic_epi32(*differ, _mm512_castps_si512(low),
                                        _mm512_castps_si512(high), 0xf6); // or with their xor
    __m512i min = _mm512_castps_si512(_mm512_set1_ps(t->float_low));
    __m512i max = _mm512_castps_si512(_mm512_set1_ps(t->float_high));
    __m512i stored = _mm512_min_epi32(_mm512_max_epi32(_mm512_castps_si512(low), min), max);
    return kind == REQUANT_FLOAT32 ? _mm512_add_epi32(stored, _mm512_set1_epi32(t->zp_after))
                                   : stored;
}
#endif
