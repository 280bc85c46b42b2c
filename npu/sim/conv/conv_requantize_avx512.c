// From sums of integer convolutions in memory to int8, with AVX512: for kernels whose sums are not
// in registers. conv_requantize_avx512.h has the arithmetic, conv_requantize.c formula and
// rounding.
//
//   sums [pixel][channel]:   16 channels, pixel after pixel, then the next 16 channels
//
// Why it is fast: bias and multipliers of 16 channels stay in registers for all pixels of a chunk,
// whose sums (MAX_SUMS) stay in the L1 cache for the next channels.
//
// Tests: test_sim_conv (on CPUs with AVX512-VNNI: depthwise ones, and those whose sums are kept).
#include "npu/sim/conv/conv_requantize_avx512.h"

#include <stdlib.h>

#ifdef __x86_64__
#define MAX_SUMS 4096 // of a chunk

// CONV_LANES channels from `from` on. False: some must be computed in doubles.
VNNI_INLINE bool requant_avx512_lanes(const struct requant_job *call, size_t first, size_t n,
                                      size_t from, const bool nz, const enum requant_kind kind)
{
    const struct requant_job t = *call;
    size_t at = first * t.channels + from, k = first % t.groups * t.channels + from;
    const struct requant_lane_factors factors = requant_lane_factors(&t, kind, k);
    const __m512i bias = _mm512_loadu_si512(t.bias + k);
    __m512i differ = _mm512_setzero_si512();
    for (size_t g = 0; g < n; g++, at += t.channels) {
        __m512i sums = _mm512_add_epi32(_mm512_loadu_si512(t.sums + at), bias);
        if (nz)
            sums = _mm512_add_epi32(sums,
                                    _mm512_mullo_epi32(_mm512_set1_epi32(t.window_sums[first + g]),
                                                       _mm512_loadu_si512(t.nz + k)));
        __m512i stored = requant_sums(&t, kind, sums, &factors, at, &differ);
        _mm_storeu_si128((void *)(t.dst + at), _mm512_cvtepi32_epi8(stored));
    }
    return _mm512_test_epi32_mask(differ, differ) == 0;
}

// Lanes of a vector of sums whose bounds differ. `at`: of the output.
VNNI static uint32_t requant_open_lanes(const struct requant_job *t, __m512i sums, size_t k,
                                        size_t at)
{
    const struct requant_lane_factors f = requant_lane_factors(t, t->kind, k);
    __m512i differ = _mm512_setzero_si512();
    if (t->kind == REQUANT_LEAKY)
        requant_sums(t, REQUANT_LEAKY, sums, &f, at, &differ);
    else if (t->kind == REQUANT_LEAKY_ADD)
        requant_sums(t, REQUANT_LEAKY_ADD, sums, &f, at, &differ);
    return _mm512_test_epi32_mask(differ, differ);
}

// Few lanes differ: what is not stored again is as floats have it.
VNNI void conv_requantize_open(const struct requant_job *t, const struct requant_part *part)
{
    size_t channel = part->first % t->groups * t->channels + part->from;
    for (size_t g = 0; g < part->n; g++)
        for (size_t i = 0; i < part->count; i += CONV_LANES) {
            const int32_t *from = part->sums + g * part->pitch + i;
            size_t k = channel + i, at = (part->first + g) * t->channels + part->from + i;
            int32_t window = t->nz ? t->window_sums[part->first + g] : 0;
            __m512i sums =
                _mm512_add_epi32(_mm512_loadu_si512(from), _mm512_loadu_si512(t->bias + k));
            if (t->nz)
                sums = _mm512_add_epi32(sums, _mm512_mullo_epi32(_mm512_set1_epi32(window),
                                                                 _mm512_loadu_si512(t->nz + k)));
            for (uint32_t lanes = requant_open_lanes(t, sums, k, at); lanes; lanes &= lanes - 1) {
                size_t lane = (size_t)__builtin_ctz(lanes);
                struct requant_part one = {.sums = from + lane,
                                           .first = part->first + g,
                                           .n = i + lane < part->count,
                                           .from = part->from + i + lane,
                                           .count = 1};
                conv_requantize_exact(t, &one);
            }
        }
}

// The last vector of channels is moved back so that it ends where they end.
VNNI_INLINE void requant_avx512_all(const struct requant_job *t, const bool nz,
                                    const enum requant_kind kind)
{
    size_t groups_at_once = t->groups > 1 ? 1 : MAX_SUMS / t->channels + 1;
    for (size_t i = 0; i < t->n; i += groups_at_once)
        for (size_t o = 0; o < t->channels; o += CONV_LANES) {
            size_t n = t->n - i < groups_at_once ? t->n - i : groups_at_once,
                   last = t->channels - CONV_LANES;
            size_t from = o < last ? o : last;
            struct requant_part part = {.sums = t->sums + i * t->channels + from,
                                        .pitch = t->channels,
                                        .first = i,
                                        .n = n,
                                        .from = from,
                                        .count = CONV_LANES};
            if (t->in_doubles)
                conv_requantize_exact(t, &part);
            else if (!requant_avx512_lanes(t, i, n, from, nz, kind))
                conv_requantize_open(t, &part);
        }
}

#define REQUANT_AVX512(name) VNNI static void name(const struct requant_job *t)

CONV_REQUANTIZE(conv_requantize_vectors, REQUANT_AVX512, requant_avx512_all)
#else
#ifndef __aarch64__ // neon/conv_requantize_neon.c
void conv_requantize_vectors(const struct requant_job *t)
{
    (void)t;
    abort(); // conv_requant.vectors is never true
}
#endif

void conv_requantize_open(const struct requant_job *t, const struct requant_part *part)
{
    (void)t, (void)part;
    abort(); // VNNI alone
}
#endif
