// From sums of integer convolutions to int8 with AVX512, CONV_LANES channels at a time: for kernels
// that have sums in registers. Sources that include it are compiled without contracted products.
#pragma once

#include "npu/sim/conv_steps.h"
#include "npu/sim/vnni.h"

#ifdef __x86_64__
VNNI_INLINE __m512 steps_unit(__m512i sums, const float *unit, const float *below)
{
    __mmask16 negative = _mm512_cmplt_epi32_mask(sums, _mm512_setzero_si512());
    return _mm512_mask_loadu_ps(_mm512_loadu_ps(unit), negative, below);
}

VNNI_INLINE __m512 steps_addend(const struct conv_finish *t, size_t at, float moved)
{
    __m512 v =
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(t->addend + at))));
    return _mm512_fmadd_ps(v, _mm512_set1_ps(t->addend_near), _mm512_set1_ps(moved));
}

/// The int8 that sums of channels from `k` on become, in the lowest bytes. Bits of *differ are set
/// where they must be counted in doubles. at: of the output.
VNNI_INLINE __m512i steps_of_sums(const struct conv_finish *t, const enum finish_kind kind,
                                  __m512i sums, size_t k, size_t at, __m512i *differ)
{
    __m512 v = _mm512_cvtepi32_ps(sums), to = _mm512_set1_ps(t->float_to_stored), low, high;
    if (kind == FINISH_FLOAT) {
        low = high = _mm512_add_ps(_mm512_mul_ps(v, _mm512_loadu_ps(t->unit.near + k)), to);
    } else if (kind == FINISH_ADD) {
        __m512 unit = steps_unit(sums, t->unit.near + k, t->below.near + k);
        low = _mm512_fmadd_ps(v, unit, steps_addend(t, at, t->addend_low));
        high = _mm512_fmadd_ps(v, unit, steps_addend(t, at, t->addend_high));
        low = _mm512_add_ps(low, to);
        high = _mm512_add_ps(high, to);
    } else if (kind == FINISH_LEAKY) {
        low = _mm512_fmadd_ps(v, steps_unit(sums, t->unit.low + k, t->below.low + k), to);
        high = _mm512_fmadd_ps(v, steps_unit(sums, t->unit.high + k, t->below.high + k), to);
    } else {
        low = _mm512_fmadd_ps(v, _mm512_loadu_ps(t->unit.low + k), to);
        high = _mm512_fmadd_ps(v, _mm512_loadu_ps(t->unit.high + k), to);
    }
    *differ = _mm512_ternarylogic_epi32(*differ, _mm512_castps_si512(low),
                                        _mm512_castps_si512(high), 0xf6); // or with their xor
    __m512i least = _mm512_castps_si512(_mm512_set1_ps(t->float_low));
    __m512i most = _mm512_castps_si512(_mm512_set1_ps(t->float_high));
    __m512i stored = _mm512_min_epi32(_mm512_max_epi32(_mm512_castps_si512(low), least), most);
    return kind == FINISH_FLOAT ? _mm512_add_epi32(stored, _mm512_set1_epi32(t->zp_after)) : stored;
}
#endif
