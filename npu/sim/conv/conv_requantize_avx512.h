// The arithmetic of conv_requantize.c on 16 sums in a register, with AVX512.
//
// Each stage is a fused multiply-add that rounds; the bits of the last one are clamped as integers
// and narrowed. Of a LeakyRelu the bits of both bounds are compared. Sources that include this are
// compiled without contracted products.
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#pragma once

#include "npu/sim/conv/conv_requantize.h"
#include "npu/sim/simd/vnni.h"

#ifdef __x86_64__
// The factors of CONV_LANES channels, those that the kind needs.
struct requant_lane_factors {
    __m512 stage, positive, negative;
};

VNNI_INLINE struct requant_lane_factors requant_lane_factors(const struct requant_job *t,
                                                             const enum requant_kind kind, size_t k)
{
    struct requant_lane_factors f;
    bool two_sides = requant_is_leaky(kind);
    f.stage =
        _mm512_loadu_ps((kind == REQUANT_FLOAT32 ? t->factors.positive : t->factors.stage) + k);
    f.positive = two_sides ? _mm512_loadu_ps(t->factors.positive + k) : f.stage;
    f.negative = two_sides ? _mm512_loadu_ps(t->factors.negative + k) : f.stage;
    return f;
}

VNNI_INLINE __m512 requant_lanes_stage(__m512 v, __m512 factor)
{
    __m512 integer = _mm512_set1_ps(REQUANT_INTEGER_FLOAT);
    return _mm512_sub_ps(_mm512_fmadd_ps(v, factor, integer), integer);
}

VNNI_INLINE __m512 requant_lanes_addend(const struct requant_job *t, size_t at)
{
    __m512i v = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(t->addend + at)));
    v = _mm512_add_epi32(v, _mm512_set1_epi32(t->addend_offset));
    return requant_lanes_stage(_mm512_cvtepi32_ps(v), _mm512_set1_ps(t->addend_factor));
}

// Both bounds of a LeakyRelu's result, rounded.
VNNI_INLINE __m512 requant_lanes_leaky(const struct requant_job *t, const enum requant_kind kind,
                                       __m512i sums, const struct requant_lane_factors *f,
                                       size_t at, __m512 *ret_high)
{
    __m512 v = _mm512_cvtepi32_ps(sums), to = _mm512_set1_ps(t->to_stored);
    __m512 low = _mm512_set1_ps(-t->error), high = _mm512_set1_ps(t->error);
    __mmask16 negative = _mm512_cmplt_epi32_mask(sums, _mm512_setzero_si512());
    __m512 factor = _mm512_mask_mov_ps(f->positive, negative, f->negative);
    v = _mm512_mask_mov_ps(v, negative, requant_lanes_stage(v, f->stage));
    if (kind == REQUANT_LEAKY_ADD) {
        __m512 more = requant_lanes_addend(t, at), out = _mm512_set1_ps(t->out);
        low = _mm512_fmadd_ps(more, out, low);
        high = _mm512_fmadd_ps(more, out, high);
    }
    *ret_high = _mm512_add_ps(_mm512_fmadd_ps(v, factor, high), to);
    return _mm512_add_ps(_mm512_fmadd_ps(v, factor, low), to);
}

/// The int8 that sums become, in the lowest bytes of each lane. Bits of *differ are set where they
/// must be computed in doubles. `at` is the output element of the first lane.
VNNI_INLINE __m512i requant_sums(const struct requant_job *t, const enum requant_kind kind,
                                 __m512i sums, const struct requant_lane_factors *f, size_t at,
                                 __m512i *differ)
{
    __m512 v = _mm512_cvtepi32_ps(sums), to = _mm512_set1_ps(t->to_stored), high;
    if (kind == REQUANT_FLOAT32) {
        v = _mm512_add_ps(_mm512_mul_ps(v, f->stage), to);
    } else if (requant_is_leaky(kind)) {
        v = requant_lanes_leaky(t, kind, sums, f, at, &high);
        *differ = _mm512_ternarylogic_epi32(*differ, _mm512_castps_si512(v),
                                            _mm512_castps_si512(high), 0xf6); // or with their xor
    } else {
        v = requant_lanes_stage(v, f->stage);
        if (kind == REQUANT_ADD)
            v = _mm512_add_ps(v, requant_lanes_addend(t, at));
        v = _mm512_fmadd_ps(v, _mm512_set1_ps(t->out), to);
    }
    __m512i min = _mm512_castps_si512(_mm512_set1_ps(t->low));
    __m512i max = _mm512_castps_si512(_mm512_set1_ps(t->high));
    __m512i stored = _mm512_min_epi32(_mm512_max_epi32(_mm512_castps_si512(v), min), max);
    return kind == REQUANT_FLOAT32 ? _mm512_add_epi32(stored, _mm512_set1_epi32(t->zp_after))
                                   : stored;
}
#endif
