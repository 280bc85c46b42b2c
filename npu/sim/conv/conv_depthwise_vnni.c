// The inner loops of depthwise convolutions of integers with AVX512-VNNI (conv_depthwise.c has the
// formula and how four lines are joined to quads).
//
//   sums[c]        += Σ over 4 rows: tap[row][c] (uint8) * x[row][c] (int8)      one vpdpbusd
//   window_sums[c] += Σ over 4 rows: 1 * x[row][c]                              another one
//   result[c]       = sums[c] + tap_min[c] * window_sums[c]                      exact, 32 bits
//   that wrap
//
// Why it is fast: a vpdpbusd does 64 of the multiplications, for four rows and 16 channels; 8 units
// have 16 registers of sums and share the load of a tap. The bound is two vpdpbusd for each 16
// channels, unit and four rows.
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI).
#include <stdlib.h>

#include "npu/sim/conv/conv_depthwise.h"
#include "npu/sim/simd/vnni.h"

#ifdef __x86_64__

// The sums of n neighbouring units, CONV_LANES elements each.
VNNI_INLINE void depthwise_vnni_sum_lanes(const struct depthwise_line *l, size_t in, size_t out,
                                          size_t o, const int n)
{
    const int32_t *taps = (const int32_t *)l->taps + o;
    const __m512i ones = _mm512_set1_epi8(1), tap_min = _mm512_loadu_si512(l->tap_min + o);
    __m512i sums[DEPTHWISE_UNROLL], window_sums[DEPTHWISE_UNROLL];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        sums[i] = window_sums[i] = _mm512_setzero_si512();
    for (size_t k = 0; k < l->n_taps; k++, taps += l->tap) {
        const int32_t *x = (const int32_t *)l->sources[k] + in + o;
        __m512i tap = _mm512_loadu_si512(taps);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) {
            __m512i quad = _mm512_loadu_si512(x + (size_t)i * l->in);
            vnni_add_products(&sums[i], tap, quad);
            vnni_add_products(&window_sums[i], ones, quad);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        _mm512_storeu_si512((int32_t *)l->to + out + o + (size_t)i * l->out,
                            _mm512_add_epi32(sums[i], _mm512_mullo_epi32(window_sums[i], tap_min)));
}

VNNI void depthwise_sum_quads(const struct depthwise_line *l)
{
    depthwise_each(l, DEPTHWISE_UNROLL, depthwise_vnni_sum_lanes);
}

// The intrinsic's number is an int for one GCC, and unsigned for another.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
VNNI_INLINE void depthwise_interleave_lanes(const uint8_t *const *rows, const int n_rows, size_t at,
                                            const __mmask16 mask, uint32_t *to)
{
    __m512i quad = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int i = 0; i < n_rows; i++) {
        __m512i x = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, rows[i] + at));
        quad = _mm512_or_si512(quad, _mm512_slli_epi32(x, (unsigned)(8 * i)));
    }
    _mm512_mask_storeu_epi32(to + at, mask, quad);
}
#pragma GCC diagnostic pop

VNNI_INLINE void depthwise_interleave_rows(const uint8_t *const *rows, const int n_rows, size_t n,
                                           uint32_t *to)
{
    const uint8_t *const copy[] = {rows[0], rows[n_rows > 1], rows[n_rows > 2 ? 2 : 0],
                                   rows[n_rows > 3 ? 3 : 0]};
    size_t at = 0;
    for (; at + CONV_LANES <= n; at += CONV_LANES)
        depthwise_interleave_lanes(copy, n_rows, at, UINT16_MAX, to);
    if (at < n)
        depthwise_interleave_lanes(copy, n_rows, at, (__mmask16)((1u << (n - at)) - 1), to);
}

VNNI void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to)
{
    switch (n_rows) {
    case 1:
        depthwise_interleave_rows(rows, 1, n, to);
        break;
    case 2:
        depthwise_interleave_rows(rows, 2, n, to);
        break;
    case 3:
        depthwise_interleave_rows(rows, 3, n, to);
        break;
    default:
        depthwise_interleave_rows(rows, 4, n, to);
    }
}
#elif !defined(__aarch64__) // neon/conv_neon_depthwise.c
void depthwise_sum_quads(const struct depthwise_line *l)
{
    (void)l;
    abort(); // conv_vnni_has_dot() is never true
}

void depthwise_interleave(const uint8_t *const *rows, size_t n_rows, size_t n, uint32_t *to)
{
    (void)rows, (void)n_rows, (void)n, (void)to;
    abort();
}
#endif

#ifndef __aarch64__
bool depthwise_stores(const struct depthwise_line *l)
{
    (void)l;
    return false;
}
#endif
