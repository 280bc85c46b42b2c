// Sums to int8 by the steps of a lookup table (lut_steps.h), with AVX512-VBMI.
//
//   64 sums -> 4 vectors of numbers, floats (lut_kernel.h) -> 2 vectors of positions, uint16
//   low byte, segment = 64 bytes of each                               vpermi2b
//   outcome = base[segment]                                            vpermi2b; of 256: twice
//   outcome += low byte > at[…][segment]                               vpermi2b, vpcmpub, vpaddb
//
// Why it is fast: positions saturate while they are packed, tables stay in registers, and all that
// is looked up are bytes, 64 at a time, in the order of the sums. The bound are the conversions of
// sums, 16 instructions, and three for each step.
//
// Compiled without contracted products. Tests: test_sim_lut (on CPUs with AVX512-VBMI).
#include <stdlib.h>

#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/lut_kinds.h"
#include "npu/sim/simd/lut_steps/lut_steps.h"
#include "npu/sim/simd/vbmi.h"

#ifdef VBMI
// 256 bytes, or the first half of them.
struct steps_bytes {
    __m512i quarter[4];
};

struct steps_job {
    struct lut_job job;
    bool of_v, falls;
    struct steps_bytes base, at[LUT_STEPS_MOST];
    __m512 bn, to_table;
    __m512i origin, reach; // bits of the first number as a float; the last position
    __m512i low_bytes, turned;
    __m128i bits;
};

VBMI_INLINE struct steps_bytes steps_load(const uint8_t *bytes, const bool wide)
{
    struct steps_bytes t = {{_mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 64)}};
    if (wide) {
        t.quarter[2] = _mm512_loadu_si512(bytes + 128);
        t.quarter[3] = _mm512_loadu_si512(bytes + 192);
    }
    return t;
}

VBMI_INLINE __m512i steps_look_up(const struct steps_bytes *t, __m512i at, __mmask64 upper,
                                  const bool wide)
{
    __m512i lower = _mm512_permutex2var_epi8(t->quarter[0], at, t->quarter[1]);
    return wide ? _mm512_mask_mov_epi8(lower, upper,
                                       _mm512_permutex2var_epi8(t->quarter[2], at, t->quarter[3]))
                : lower;
}

// Where the lower bytes of positions are, in the order of their sums: dwords are packed to words
// lane by lane, of two vectors in turn.
VBMI_INLINE __m512i steps_low_bytes(void)
{
    uint8_t at[LUT_AT_ONCE];
    for (uint8_t i = 0; i < LUT_AT_ONCE; i++) {
        uint8_t v = i / 16, lane = i % 16 / 4, word = i % 4; // sum i is lane i % 16 of vector v
        at[i] = (uint8_t)((v / 2) * 64 + lane * 16 + (v % 2) * 8 + word * 2);
    }
    return _mm512_loadu_si512(at);
}

VBMI_INLINE struct steps_job steps_begin(const struct lut_job *job, const bool wide, const int most)
{
    const struct lut_kernel *k = job->kernel;
    const struct lut_steps *s = k->steps;
    struct steps_job t;
    t.job = *job;
    t.of_v = s->of_v;
    t.falls = s->falls;
    t.base = steps_load(s->base, wide);
#pragma GCC unroll 8
    for (int i = 0; i < most; i++)
        t.at[i] = steps_load(s->at[i], wide);
    t.bn = _mm512_set1_ps(k->bn);
    t.to_table = _mm512_set1_ps(k->to_table);
    t.origin = _mm512_set1_epi32((int32_t)float_bits(LUT_ROUNDER) + s->first);
    t.reach = _mm512_set1_epi16((int16_t)(uint16_t)(s->last - s->first));
    t.low_bytes = steps_low_bytes();
    t.turned = _mm512_set1_epi8((char)s->turned);
    t.bits = _mm_cvtsi32_si128((int)s->bits);
    return t;
}

// 64 sums as two vectors of positions. Bits of floats are as far apart as their numbers near
// LUT_ROUNDER, and farther on in the same order while they are positive.
VBMI_INLINE void steps_positions(const struct steps_job *t, const int32_t *sums, size_t channel,
                                 __m512i ret[2])
{
    const __m512 rounder = _mm512_set1_ps(LUT_ROUNDER);
    const int32_t *bias = t->job.bias + channel;
    const float *factor = t->job.factor + channel;
    __m512i from_first[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i sum = _mm512_loadu_si512(sums + i * LUT_LANES);
        if (!t->job.complete)
            sum = _mm512_add_epi32(sum, _mm512_loadu_si512(bias + i * LUT_LANES));
        __m512 x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(factor + i * LUT_LANES),
                                   rounder);
        if (!t->of_v)
            x = _mm512_fmadd_ps(x, t->bn, t->to_table);
        if (!t->job.complete)
            x = _mm512_max_ps(x, _mm512_set1_ps(LUT_ROUNDER - LUT_MAX_V));
        from_first[i] = _mm512_sub_epi32(_mm512_castps_si512(x), t->origin);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        ret[i] = _mm512_min_epu16(_mm512_packus_epi32(from_first[2 * i], from_first[2 * i + 1]),
                                  t->reach);
}

VBMI_INLINE void steps_64(const struct steps_job *t, const int32_t *sums, size_t channel,
                          int8_t *dst, const bool wide, const int most)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i position[2];
    steps_positions(t, sums, channel, position);
    __m512i low = _mm512_permutex2var_epi8(position[0], t->low_bytes, position[1]);
    __m512i segment = _mm512_permutex2var_epi8(_mm512_srl_epi16(position[0], t->bits), t->low_bytes,
                                               _mm512_srl_epi16(position[1], t->bits));
    if (t->falls)
        low = _mm512_mask_sub_epi8(low, _mm512_cmple_epu8_mask(segment, t->turned),
                                   _mm512_set1_epi8(-1), low);
    __mmask64 upper = wide ? _mm512_movepi8_mask(segment) : 0;
    __m512i stored = steps_look_up(&t->base, segment, upper, wide);
#pragma GCC unroll 8
    for (int i = 0; i < most; i++) {
        __mmask64 above =
            _mm512_cmpgt_epu8_mask(low, steps_look_up(&t->at[i], segment, upper, wide));
        stored = _mm512_mask_add_epi8(stored, above, stored, one);
    }
    _mm512_storeu_si512(dst, stored);
}

VBMI_INLINE void steps_all(const struct lut_job *job, const bool wide, const int most)
{
    const struct steps_job t = steps_begin(job, wide, most);
    LUT_EACH(job, steps_64(&t, sums, channel, to, wide, most));
}

// The number of steps is a constant in each, so that tables stay in registers.
#define STEPS(most)                                                                                \
    VBMI static void steps_##most(const struct lut_job *job)                                       \
    {                                                                                              \
        steps_all(job, false, most);                                                               \
    }
#define STEPS_WIDE(most)                                                                           \
    VBMI static void steps_wide_##most(const struct lut_job *job)                                  \
    {                                                                                              \
        steps_all(job, true, most);                                                                \
    }

STEPS(1)
STEPS(2)
STEPS(3)
STEPS(4)
STEPS(5)
STEPS(6)
STEPS(7)
STEPS(8)
STEPS_WIDE(1)
STEPS_WIDE(2)
STEPS_WIDE(3)
STEPS_WIDE(4)
STEPS_WIDE(5)

void lut_sums_steps(const struct lut_job *job)
{
    static void (*const narrow[LUT_STEPS_MOST])(const struct lut_job *job) = {
        steps_1, steps_2, steps_3, steps_4, steps_5, steps_6, steps_7, steps_8};
    static void (*const wide[LUT_STEPS_MOST_WIDE])(const struct lut_job *job) = {
        steps_wide_1, steps_wide_2, steps_wide_3, steps_wide_4, steps_wide_5};
    const struct lut_steps *s = job->kernel->steps;
    (s->n < LUT_STEPS_SEGMENTS ? narrow : wide)[s->most - 1](job);
}

bool lut_has_steps(void)
{
    return lut_has_vbmi();
}
#elif !defined(__aarch64__) // lut_steps_neon.c
bool lut_has_steps(void)
{
    return false;
}

void lut_sums_steps(const struct lut_job *job)
{
    (void)job;
    abort(); // lut_has_steps() is never true
}
#endif
