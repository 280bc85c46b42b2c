// Sums to int8 by a lookup table, with AVX512-VBMI: lut_kernel.h has the formula, lut.h the
// segments.
//
//   64 sums -> 4 vectors v, int32 -> 2 vectors of positions, int16 -> segments, 64 bytes
//   slope, offset = that byte of 128, which are in 2 registers      vpermi2b; of 256: twice
//   line = offset + (l * slope >> shift) - LUT_FALL * l             vpmulhuw, int16
//   stored = its upper byte
//
// Beyond the tables stored values are straight lines, computed in floats that are exact: fused
// multiply-adds of LUT_ROUNDER, one rounded down and one to nearest.
//
// Why it is fast: 64 bytes are looked up by one instruction, or three. Tables that saturate, as
// most do, are clamped to their segments, and need nothing else. Packs leave the order of elements
// as it comes, and the last permutation, which takes the upper bytes, puts them in order.
//
// Compiled without contracted products. Tests: test_sim_lut (on CPUs with AVX512-VBMI).
#include <stdlib.h>

#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/lut_kinds.h"
#include "npu/sim/simd/vbmi.h"

#define LUT_REACH_BITS 14
#define MAX_EDGE       (1 << 16) // a table's last number is smaller

bool lut_fits_lines(const struct graph_lut *lut, const int32_t bounds[2])
{
    for (int side = 0; side < 2; side++) {
        int64_t beyond = llabs((int64_t)bounds[side]) - LUT_REACH;
        int64_t rise = beyond * abs(lut->slope[side]) >> lut->slope_shift[side];
        int64_t first = (int64_t)LUT_REACH * abs(lut->slope[side]) >> lut->slope_shift[side];
        if (lut->slope_shift[side] > LUT_REACH_BITS || first >= LUT_MAX_V / 4 ||
            rise >= LUT_MAX_V - MAX_EDGE)
            return false;
    }
    return abs(lut->out_factor) < 1 << 24 && abs(lut->out_offset) < LUT_MAX_V;
}

#ifdef VBMI
bool lut_has_vbmi(void)
{
    return kernel_has_vbmi();
}

// 256 bytes.
struct vbmi_bytes {
    __m512i quarter[4];
};

struct vbmi_tables {
    struct vbmi_bytes slope, offset_low, offset_high;
    __m128i bits;  // of the number in its segment
    __m512i mask;  // of l * LUT_FALL
    __m128i scale; // of that: the product's upper half is l * slope >> shift
    __m512i upper_bytes;
};

// What lies beyond the tables, by float: y = edge + floor((v - from) * slope), rounded down by the
// fused multiply-add v * slope + start: from * slope is an integer, since `from` is 2^14 and slopes
// have no more bits behind the point (lut_fits_lines()).
struct vbmi_beyond {
    __m512i bounds[2];
    __m512 start[2], slope[2];     // start: LUT_ROUNDER + edge - from * slope
    __m512 out_factor, out_offset; // offset: with LUT_ROUNDER
};

struct vbmi_job {
    struct lut_job job;
    struct vbmi_tables tables;
    struct vbmi_beyond beyond;
    __m512i low, high; // numbers are clamped to these
    __m512i start;     // number of the first position
    __m512 bn, to_table;
};

VBMI_INLINE struct vbmi_bytes vbmi_load_bytes(const uint8_t *bytes)
{
    struct vbmi_bytes t;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        t.quarter[i] = _mm512_loadu_si512(bytes + 64 * i);
    return t;
}

VBMI_INLINE __m512i vbmi_look_up(const struct vbmi_bytes *t, __m512i at, __mmask64 upper,
                                 const bool halves)
{
    if (!halves)
        return _mm512_permutex2var_epi8(t->quarter[0], at, t->quarter[1]);
    return _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(t->quarter[0], at, t->quarter[1]), upper,
                                _mm512_permutex2var_epi8(t->quarter[2], at, t->quarter[3]));
}

VBMI_INLINE struct vbmi_beyond vbmi_load_beyond(const struct lut_kernel *k)
{
    const struct graph_lut *lut = k->lut;
    struct vbmi_beyond b;
    const int16_t edges[2] = {lut->below[0], lut->above[LUT_POINTS - 1]};
    for (int side = 0; side < 2; side++) {
        float unit = bits_float((127 - lut->slope_shift[side]) << 23); // 2^-shift
        b.bounds[side] = _mm512_set1_epi32(k->bounds[side]);
        float slope = (float)lut->slope[side] * unit, from = side ? LUT_REACH : -LUT_REACH;
        b.start[side] = _mm512_set1_ps(LUT_ROUNDER + ((float)edges[side] - from * slope));
        b.slope[side] = _mm512_set1_ps(slope);
    }
    b.out_factor =
        _mm512_set1_ps((float)lut->out_factor * bits_float((127 - lut->out_shift) << 23));
    b.out_offset = _mm512_set1_ps(LUT_ROUNDER + (float)lut->out_offset);
    return b;
}

// Stored values that are not saturated above. Of what is too large for its rounding, bits are
// large, too.
VBMI_INLINE __m512i vbmi_beyond(const struct vbmi_beyond *b, __m512i v, const bool above)
{
    const __m512 rounder = _mm512_set1_ps(LUT_ROUNDER);
    __m512 start = b->start[1], slope = b->slope[1];
    v = _mm512_min_epi32(v, b->bounds[1]);
    if (!above) {
        v = _mm512_max_epi32(v, b->bounds[0]);
        __mmask16 below = _mm512_movepi32_mask(v);
        start = _mm512_mask_mov_ps(start, below, b->start[0]);
        slope = _mm512_mask_mov_ps(slope, below, b->slope[0]);
    }
    __m512 y = _mm512_fmadd_round_ps(_mm512_cvtepi32_ps(v), slope, start,
                                     _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    y = _mm512_fmadd_ps(_mm512_sub_ps(y, rounder), b->out_factor, b->out_offset);
    y = _mm512_max_ps(y, _mm512_set1_ps(LUT_ROUNDER - 128));
    return _mm512_sub_epi32(_mm512_castps_si512(y), _mm512_castps_si512(rounder));
}

// The numbers w that 64 sums become. What may be too large is bounded below, where bits of floats
// would wrap; above they do not.
VBMI_INLINE void vbmi_inputs(const struct vbmi_job *t, const int32_t *sums, size_t channel,
                             const bool complete, __m512i w[4])
{
    const __m512 rounder = _mm512_set1_ps(LUT_ROUNDER);
    const int32_t *bias = t->job.bias + channel;
    const float *factor = t->job.factor + channel;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i sum = _mm512_loadu_si512(sums + i * LUT_LANES);
        if (!complete)
            sum = _mm512_add_epi32(sum, _mm512_loadu_si512(bias + i * LUT_LANES));
        __m512 x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(factor + i * LUT_LANES),
                                   rounder);
        x = _mm512_fmadd_ps(x, t->bn, t->to_table);
        if (!complete)
            x = _mm512_max_ps(x, _mm512_set1_ps(LUT_ROUNDER - LUT_MAX_V));
        w[i] = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_castps_si512(rounder));
    }
}

// Numbers as positions from the first segment on, two vectors of int16 in the order of packs. Where
// the table does not saturate, they are 2^15 and more beyond the tables; below them, where the
// outcome stays the same, numbers are clamped, since many are there.
VBMI_INLINE void vbmi_positions(const struct vbmi_job *t, const __m512i v[4], const bool saturates,
                                __m512i ret[2])
{
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i u = _mm512_max_epi16(_mm512_packs_epi32(v[2 * i], v[2 * i + 1]), t->low);
        if (saturates)
            u = _mm512_min_epi16(u, t->high);
        ret[i] = _mm512_sub_epi16(u, t->start);
    }
}

// The lines' values of one vector of positions.
VBMI_INLINE __m512i vbmi_line(const struct vbmi_tables *t, __m512i position, __m512i slope,
                              __m512i offset)
{
    __m512i in = _mm512_and_si512(_mm512_add_epi16(position, position), t->mask); // l * LUT_FALL
    __m512i rise = _mm512_mulhi_epu16(_mm512_sll_epi16(in, t->scale), slope);
    return _mm512_add_epi16(rise, _mm512_sub_epi16(offset, in));
}

// Puts exceptions in their places, as the upper bytes of lines.
VBMI_INLINE void vbmi_mix_exceptions(const struct lut_segments *s, const __m512i u[2],
                                     __m512i lines[2])
{
    for (uint32_t i = 0; i < s->n_exceptions; i++) {
        __m512i position = _mm512_set1_epi16((int16_t)s->exceptions[i]);
        __m512i line = _mm512_set1_epi16((int16_t)(s->values[i] * 256));
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++)
            lines[k] =
                _mm512_mask_mov_epi16(lines[k], _mm512_cmpeq_epi16_mask(u[k], position), line);
    }
}

// Lines, whose upper bytes are the stored values of positions. What comes out of positions beyond
// the end does not matter.
VBMI_INLINE void vbmi_covered(const struct vbmi_tables *t, const struct lut_segments *s,
                              const __m512i u[2], const bool halves, __m512i lines[2])
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i k =
        _mm512_packus_epi16(_mm512_srl_epi16(u[0], t->bits), _mm512_srl_epi16(u[1], t->bits));
    __mmask64 upper = halves ? _mm512_movepi8_mask(k) : 0;
    __m512i slope = vbmi_look_up(&t->slope, k, upper, halves);
    __m512i low = vbmi_look_up(&t->offset_low, k, upper, halves);
    __m512i high = vbmi_look_up(&t->offset_high, k, upper, halves);
    lines[0] =
        vbmi_line(t, u[0], _mm512_unpacklo_epi8(zero, slope), _mm512_unpacklo_epi8(low, high));
    lines[1] =
        vbmi_line(t, u[1], _mm512_unpackhi_epi8(zero, slope), _mm512_unpackhi_epi8(low, high));
    vbmi_mix_exceptions(s, u, lines);
}

// Puts what lies beyond the tables in its places, as the upper bytes of lines: where positions are
// 2^15 and more.
VBMI_INLINE void vbmi_mix_beyond(const struct vbmi_beyond *b, const __m512i v[4],
                                 const __m512i u[2], const bool above, __m512i lines[2])
{
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i more = _mm512_packs_epi32(vbmi_beyond(b, v[2 * i], above),
                                          vbmi_beyond(b, v[2 * i + 1], above));
        more = _mm512_min_epi16(more, _mm512_set1_epi16(127));
        lines[i] = _mm512_mask_slli_epi16(lines[i], _mm512_movepi16_mask(u[i]), more, 8);
    }
}

VBMI_INLINE void vbmi_64(const struct vbmi_job *t, const struct lut_kind kind, const int32_t *sums,
                         size_t channel, int8_t *dst)
{
    __m512i v[4], u[2], lines[2];
    vbmi_inputs(t, sums, channel, kind.complete, v);
    vbmi_positions(t, v, kind.saturates, u);
    vbmi_covered(&t->tables, t->job.kernel->segments, u, kind.halves, lines);
    if (!kind.saturates && _mm512_movepi16_mask(_mm512_or_si512(u[0], u[1])))
        vbmi_mix_beyond(&t->beyond, v, u, kind.above, lines);
    _mm512_storeu_si512(dst, _mm512_permutex2var_epi8(lines[0], t->tables.upper_bytes, lines[1]));
}

// The upper bytes of int16 in the order of packs, put in that of the sums: of dword j of each
// 128-bit lane the first two come from the first vector.
VBMI_INLINE __m512i vbmi_upper_bytes(void)
{
    uint8_t at[64];
    for (uint8_t i = 0; i < 64; i++) {
        uint8_t v = i / 16, lane = i % 16 / 4, byte = i % 4; // sum i is lane i % 16 of vector v
        at[i] = (uint8_t)((v / 2) * 64 + lane * 16 + (v % 2) * 8 + byte * 2 + 1);
    }
    return _mm512_loadu_si512(at);
}

static bool vbmi_clamps_below(const struct lut_kernel *k)
{
    return k->lut->slope[0] == 0;
}

VBMI_INLINE struct vbmi_job vbmi_begin(const struct lut_job *job)
{
    const struct lut_kernel *k = job->kernel;
    const struct lut_segments *s = k->segments;
    int start = s->first - LUT_REACH, last = start + (int)(s->n << s->bits) - 1;
    int low = s->saturates || vbmi_clamps_below(k) ? start : INT16_MIN;
    return (struct vbmi_job){
        .job = *job,
        .tables = {.slope = vbmi_load_bytes(s->slope),
                   .offset_low = vbmi_load_bytes(s->offset_low),
                   .offset_high = vbmi_load_bytes(s->offset_high),
                   .bits = _mm_cvtsi32_si128((int)s->bits),
                   .mask = _mm512_set1_epi16((int16_t)(LUT_FALL * ((1 << s->bits) - 1))),
                   .scale = _mm_cvtsi32_si128(7 - (int)s->shift),
                   .upper_bytes = vbmi_upper_bytes()},
        .beyond = vbmi_load_beyond(k),
        .low = _mm512_set1_epi16((int16_t)low),
        .high = _mm512_set1_epi16((int16_t)last),
        .start = _mm512_set1_epi16((int16_t)start),
        .bn = _mm512_set1_ps(k->bn),
        .to_table = _mm512_set1_ps(k->to_table)};
}

VBMI_INLINE void vbmi_all(const struct lut_job *job, const struct lut_kind kind)
{
    const struct vbmi_job t = vbmi_begin(job);
    LUT_EACH(job, vbmi_64(&t, kind, sums, channel, to));
}

LUT_KINDS(VBMI, vbmi_all)

void lut_sums_lines(const struct lut_job *job)
{
    const bool saturates = job->kernel->segments->saturates;
    run_kind(job, saturates ? 2 : vbmi_clamps_below(job->kernel));
}

bool lut_has_lines(void)
{
    return lut_has_vbmi();
}
#else
bool lut_has_vbmi(void)
{
    return false;
}
#endif

#if !defined(VBMI) && !defined(__aarch64__) // lut_neon.c
bool lut_has_lines(void)
{
    return false;
}

void lut_sums_lines(const struct lut_job *job)
{
    (void)job;
    abort(); // lut_has_lines() is never true
}
#endif
